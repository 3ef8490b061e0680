//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
)

// The registry of the cluster speaks plain HTTP, so this story runs the Job of a build by itself.
var _ = Describe("The Job of a build", func() {
	It("works with a registry that wants a login and has a certificate of its own", func(ctx SpecContext) {
		needsThisMachine("the registry")
		private := startPrivateRegistry()
		platform := readOperator(ctx)
		base := private.take(ctx, platform.Registry.Host+"/sless-runtime-nodejs24:v0.1.0")
		packed, err := archive.FromFiles(map[string]string{
			"Dockerfile": "FROM " + base + "\nUSER 0:0\nRUN echo built > /app/result\nUSER 65532:65532\n",
		}, archive.Options{})
		Expect(err).NotTo(HaveOccurred())
		key := naming.Key("e2e", fmt.Sprint(time.Now().UnixNano()))
		options := resources.BuildOptions{
			Namespace: buildsNamespace, Key: key, Base: base, Target: private.host + "/deps:" + key,
			ContextKey: storeContext(ctx, packed), ContextDigest: packed.Digest,
			KanikoImage: platform.Builds.KanikoImage, BuilderImage: platform.builderImage,
			ImagePullSecret: platform.Builds.ImagePullSecretName,
			StoreEnv: []corev1.EnvVar{
				{Name: "S3_ENDPOINT", Value: platform.ObjectStore.Endpoint}, {Name: "S3_BUCKET", Value: "sless"},
				{Name: "S3_REGION", Value: "us-east-1"}, {Name: "S3_PATH_STYLE", Value: "true"},
			},
			StoreSecret: "sless-object-store", PushSecret: "e2e-" + key,
			Authorities:    []string{resources.RegistryAuthority, resources.StoreAuthority},
			TimeoutSeconds: 600,
		}
		login := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: options.PushSecret, Namespace: buildsNamespace},
			Type:       corev1.SecretTypeDockerConfigJson,
			Data:       map[string][]byte{corev1.DockerConfigJsonKey: private.login},
		}
		Expect(k8s.Create(ctx, login)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, login)).To(Succeed()) })
		job := resources.BuildJob(python("e2e-login", "login", ""), options)
		// It is no build of the manager's, which would count it.
		job.Labels, job.Annotations, job.Spec.Suspend = nil, nil, new(bool)
		Expect(k8s.Create(ctx, job)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(k8s.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		})
		Expect(k8s.Create(ctx, resources.BuildAuthorities(job, map[string]string{
			resources.RegistryAuthority: private.authority,
			resources.StoreAuthority:    string(secretOf(ctx, systemNamespace, "sless-object-store")["ca.crt"]),
		}))).To(Succeed())
		Eventually(func() []batchv1.JobConditionType {
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			kinds := []batchv1.JobConditionType{}
			for _, c := range job.Status.Conditions {
				kinds = append(kinds, c.Type)
			}
			return kinds
		}).WithTimeout(buildEnd).Should(ContainElement(batchv1.JobComplete), func() string { return podsOf(ctx, job) })
		target, err := name.NewTag(options.Target)
		Expect(err).NotTo(HaveOccurred())
		_, err = remote.Head(target, private.options...)
		Expect(err).NotTo(HaveOccurred())
	})
})

func podsOf(ctx context.Context, job *batchv1.Job) string {
	pods := &corev1.PodList{}
	_ = k8s.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})
	text := ""
	for _, pod := range pods.Items {
		for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			text += fmt.Sprintf("%s: %+v\n", status.Name, status.State)
		}
	}
	return text
}

// storeContext puts a build context into the demo's object store and returns its key.
func storeContext(ctx context.Context, packed *archive.Archive) string {
	GinkgoHelper()
	store := connectStore(ctx)
	key := objectstore.CodeKey("e2e-login", packed.Digest)
	Expect(store.Put(ctx, key, bytes.NewReader(packed.Data), int64(len(packed.Data)), nil)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(store.Delete(ctx, key)).To(Succeed()) })
	return key
}

// privateRegistry is a registry in this process that nobody uses without a password, and whose certificate only those
// believe who have its authority.
type privateRegistry struct {
	host      string
	login     []byte
	authority string
	options   []remote.Option
}

func startPrivateRegistry() *privateRegistry {
	GinkgoHelper()
	const user, password = "sless", "t0ken"
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", nodeAddress+":0")
	Expect(err).NotTo(HaveOccurred())
	Expect(server.Listener.Close()).To(Succeed())
	server.Listener = listener
	certificate, authority := certificateFor(net.ParseIP(nodeAddress))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	DeferCleanup(server.Close)
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(authority)).To(BeTrue())
	host := listener.Addr().String()
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return &privateRegistry{
		host: host, authority: string(authority), login: fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth),
		options: []remote.Option{
			remote.WithAuth(&authn.Basic{Username: user, Password: password}),
			remote.WithTransport(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}),
		},
	}
}

// take copies an image of the demo's registry, which is given by its tag, and returns the copy by its digest.
func (p *privateRegistry) take(ctx context.Context, ref string) string {
	GinkgoHelper()
	from, err := name.ParseReference(ref, name.Insecure)
	Expect(err).NotTo(HaveOccurred())
	img, err := remote.Image(from, remote.WithContext(ctx), remote.WithAuthFromKeychain(registryLogin(ctx)))
	Expect(err).NotTo(HaveOccurred())
	to, err := name.NewTag(p.host + "/runtime:v1")
	Expect(err).NotTo(HaveOccurred())
	Expect(remote.Write(to, img, p.options...)).To(Succeed())
	digest, err := img.Digest()
	Expect(err).NotTo(HaveOccurred())
	return to.Context().Digest(digest.String()).String()
}

// certificateFor makes a certificate for an address, which is its own authority.
func certificateFor(address net.IP) (certificate tls.Certificate, authority []byte) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{address}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
