//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/internal/objectstore"
)

const systemNamespace = "sless-system"

// The stories speak to registry and object store by the names of their Services, as pods do: their certificates and logins
// are for these names.
var _ = useClusterDNS()

func useClusterDNS() bool {
	if os.Getenv("SLESS_E2E_CLUSTER") == "current" {
		return false
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, "10.96.0.10:53")
	}}
	return true
}

// operator is how the manager was configured.
type operator struct {
	config.Config

	builderImage string
}

func readOperator(ctx context.Context) *operator {
	GinkgoHelper()
	manager := &appsv1.Deployment{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "sless-controller-manager"}, manager)).To(Succeed())
	o := &operator{}
	for _, env := range manager.Spec.Template.Spec.Containers[0].Env {
		if env.Name == "BUILDER_IMAGE" {
			o.builderImage = env.Value
		}
	}
	for _, volume := range manager.Spec.Template.Spec.Volumes {
		if volume.Name == "config" {
			settings := &corev1.ConfigMap{}
			Expect(k8s.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: volume.ConfigMap.Name}, settings)).To(Succeed())
			Expect(yaml.Unmarshal([]byte(settings.Data["config.yaml"]), &o.Config)).To(Succeed())
		}
	}
	Expect(o.ObjectStore.Endpoint).NotTo(BeEmpty())
	return o
}

func secretOf(ctx context.Context, namespace, name string) map[string][]byte {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)).To(Succeed())
	return secret.Data
}

// storeConfig is that of the manager's object store, with a file of its authority.
func storeConfig(ctx context.Context) objectstore.Config {
	GinkgoHelper()
	store, login := readOperator(ctx).ObjectStore, secretOf(ctx, systemNamespace, "sless-object-store")
	authority := filepath.Join(GinkgoT().TempDir(), "ca.crt")
	Expect(os.WriteFile(authority, login["ca.crt"], 0o600)).To(Succeed())
	return objectstore.Config{
		Endpoint: store.Endpoint, Region: "us-east-1", Bucket: "sless", PathStyle: store.PathStyle, Insecure: store.Insecure,
		CAFile: authority, AccessKey: string(login["accessKey"]), SecretKey: string(login["secretKey"]),
	}
}

func connectStore(ctx context.Context) *objectstore.S3 {
	GinkgoHelper()
	store, err := objectstore.New(storeConfig(ctx))
	Expect(err).NotTo(HaveOccurred())
	return store
}

// registryLogin is the login with which nodes pull.
func registryLogin(ctx context.Context) authn.Keychain {
	GinkgoHelper()
	secret := secretOf(ctx, systemNamespace, readOperator(ctx).Functions.ImagePullSecretName)
	keychain, err := image.KeychainFromJSON(secret[corev1.DockerConfigJsonKey])
	Expect(err).NotTo(HaveOccurred())
	return keychain
}
