// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/internal/testutil"
)

// manifests are the objects of a file in dist, by kind and name.
type manifests map[string]*unstructured.Unstructured

func readManifests(t *testing.T, file string) manifests {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "dist", file))
	if err != nil {
		t.Fatal(err)
	}
	all := manifests{}
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		obj := &unstructured.Unstructured{}
		if err := errors.Join(err, yaml.Unmarshal(doc, &obj.Object)); err != nil {
			t.Fatal(err)
		}
		all[obj.GetKind()+" "+obj.GetName()] = obj
	}
}

// as reads an object of the manifests into its type.
func as[T any](t *testing.T, all manifests, key string) T {
	t.Helper()
	var typed T
	if all[key] == nil {
		t.Fatalf("there is no %s", key)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all[key].Object, &typed); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return typed
}

// certificate is what matters here of a Certificate of cert-manager.
type certificate struct {
	Spec struct {
		SecretName string   `json:"secretName"`
		IsCA       bool     `json:"isCA"`
		DNSNames   []string `json:"dnsNames"`
		IssuerRef  struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"issuerRef"`
		PrivateKey struct {
			RotationPolicy string `json:"rotationPolicy"`
		} `json:"privateKey"`
	} `json:"spec"`
}

// issuer is what matters here of an Issuer of cert-manager.
type issuer struct {
	Spec struct {
		CA *struct {
			SecretName string `json:"secretName"`
		} `json:"ca"`
		SelfSigned *struct{} `json:"selfSigned"`
	} `json:"spec"`
}

// TestCertManagerDifference says what cert-manager changes of the installation. Applying the one over the other deletes
// nothing, so that nothing may be missing.
func TestCertManagerDifference(t *testing.T) {
	t.Parallel()
	before, after := readManifests(t, "install.yaml"), readManifests(t, "install-cert-manager.yaml")
	got := map[string]string{}
	for key, obj := range before {
		if after[key] == nil {
			got[key] = "missing"
		} else if !cmp.Equal(obj.Object, after[key].Object) {
			got[key] = "changed"
		}
	}
	for key := range after {
		if before[key] == nil {
			got[key] = "added"
		}
	}
	want := map[string]string{
		"Certificate sless-webhook-authority":                                   "added",
		"Certificate sless-webhook-certificate":                                 "added",
		"Issuer sless-selfsigned-issuer":                                        "added",
		"Issuer sless-webhook-issuer":                                           "added",
		"Deployment sless-controller-manager":                                   "changed",
		"MutatingWebhookConfiguration sless-mutating-webhook-configuration":     "changed",
		"ValidatingWebhookConfiguration sless-validating-webhook-configuration": "changed",
		"Role sless-webhook-certificate-role":                                   "changed",
		"ClusterRole sless-webhook-configuration-role":                          "changed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what cert-manager changes (-want +got):\n%s", diff)
	}
	for _, key := range []string{"Role sless-webhook-certificate-role", "ClusterRole sless-webhook-configuration-role"} {
		if rules := as[rbacv1.ClusterRole](t, after, key).Rules; len(rules) > 0 {
			t.Errorf("%s still gives rights: %v", key, rules)
		}
	}
}

// TestCertManagerNames follows the certificate from its issuer to the server and to the API server: no name in between is
// checked by anybody else before the webhooks are called.
func TestCertManagerNames(t *testing.T) {
	t.Parallel()
	all := readManifests(t, "install-cert-manager.yaml")
	cert := as[certificate](t, all, "Certificate sless-webhook-certificate").Spec
	authority := as[certificate](t, all, "Certificate sless-webhook-authority").Spec
	issuedBy := as[issuer](t, all, cert.IssuerRef.Kind+" "+cert.IssuerRef.Name).Spec
	if issuedBy.CA == nil || issuedBy.CA.SecretName != authority.SecretName || !authority.IsCA {
		t.Errorf("the certificate's issuer is %+v, want that of the authority %+v", issuedBy, authority)
	}
	if authority.PrivateKey.RotationPolicy != "Never" {
		t.Error("renewing the authority changes its key, and no certificate from before would be trusted")
	}
	if as[issuer](t, all, authority.IssuerRef.Kind+" "+authority.IssuerRef.Name).Spec.SelfSigned == nil {
		t.Error("nobody signs the authority")
	}
	opts, mounted := mountedCertificate(t, all)
	if opts.rotate || !opts.enabled {
		t.Errorf("rotate is %v and enabled %v, want false and true", opts.rotate, opts.enabled)
	}
	if mounted.SecretName != cert.SecretName || mounted.SecretName == opts.names.Secret {
		t.Errorf("the manager has the Secret %s, want the one of cert-manager, %s, which is not the rotation's, %s",
			mounted.SecretName, cert.SecretName, opts.names.Secret)
	}
	webhooks := []admissionv1.ValidatingWebhook{}
	for _, key := range []string{"MutatingWebhookConfiguration " + opts.names.Mutating, "ValidatingWebhookConfiguration " + opts.names.Validating} {
		config := as[admissionv1.ValidatingWebhookConfiguration](t, all, key)
		if got := config.Annotations["cert-manager.io/inject-ca-from"]; got != "sless-system/sless-webhook-certificate" {
			t.Errorf("%s gets its authority from %q", key, got)
		}
		webhooks = append(webhooks, config.Webhooks...)
	}
	for _, w := range webhooks {
		if host := w.ClientConfig.Service.Name + "." + w.ClientConfig.Service.Namespace + ".svc"; !slices.Contains(cert.DNSNames, host) {
			t.Errorf("%s is called as %s, but the certificate is for %v", w.Name, host, cert.DNSNames)
		}
	}
}

// mountedCertificate returns the options of the manager in the manifests, and the Secret at the place where they look for
// the certificate.
func mountedCertificate(t *testing.T, all manifests) (webhookOptions, *corev1.SecretVolumeSource) {
	t.Helper()
	pod := as[appsv1.Deployment](t, all, "Deployment sless-controller-manager").Spec.Template.Spec
	opts, flags := webhookOptions{}, flag.NewFlagSet("", flag.ContinueOnError)
	opts.bindFlags(flags)
	args := slices.DeleteFunc(slices.Clone(pod.Containers[0].Args), func(arg string) bool { return !strings.HasPrefix(arg, "--webhook") })
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, volume := range pod.Volumes {
			if mount.MountPath == opts.certDir && volume.Name == mount.Name && volume.Secret != nil {
				return opts, volume.Secret
			}
		}
	}
	t.Fatalf("no Secret is mounted at %s", opts.certDir)
	return opts, nil
}

// TestMountedCertificate changes the certificate as the kubelet does, and waits for the running server to show the new one.
func TestMountedCertificate(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "localhost:0")
	g.Expect(err).NotTo(HaveOccurred())
	address := listener.Addr().(*net.TCPAddr)
	g.Expect(listener.Close()).To(Succeed())
	dir, ends := t.TempDir(), time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	mount(g, dir, "first", ends)

	w := newWebhooks(webhookOptions{enabled: true, port: address.Port, certDir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	served := func(g Gomega) time.Time {
		conn, err := tls.Dial("tcp", fmt.Sprintf("localhost:%d", address.Port), &tls.Config{InsecureSkipVerify: true})
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].NotAfter
	}
	g.Eventually(served).WithTimeout(time.Minute).Should(Equal(ends))
	mount(g, dir, "second", ends.Add(time.Hour))
	g.Eventually(served).WithTimeout(2 * time.Minute).Should(Equal(ends.Add(time.Hour)))
}

// mount puts a certificate into a folder like the kubelet: by a link that is replaced at once for all files.
func mount(g Gomega, dir, version string, ends time.Time) {
	g.Expect(os.Mkdir(filepath.Join(dir, version), 0o755)).To(Succeed())
	secret := testutil.WebhookCertificate(ends, ends, "localhost")
	for _, file := range []string{"tls.crt", "tls.key"} {
		g.Expect(os.WriteFile(filepath.Join(dir, version, file), secret[file], 0o600)).To(Succeed())
		if err := os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)); err != nil {
			g.Expect(err).To(MatchError(os.ErrExist))
		}
	}
	g.Expect(os.Symlink(version, filepath.Join(dir, "..new"))).To(Succeed())
	g.Expect(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data"))).To(Succeed())
}
