// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/naeel/sless/hack/internal/cluster"
	"github.com/naeel/sless/internal/image"
)

// plan makes the Secrets of both parts.
func plan(t *testing.T, have secrets, now time.Time) secrets {
	t.Helper()
	all := secrets{}
	for _, part := range []string{partStore, partRegistry} {
		made, err := planSecrets(part, have, now)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, made)
	}
	return all
}

// written lists the Secrets that differ, as namespace/name.
func written(have, want secrets) map[string]bool {
	names := map[string]bool{}
	for key, secret := range want {
		if changed(have[key], secret) {
			names[key.String()] = true
		}
	}
	return names
}

func TestPlanSecrets(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const (
		system, builds                 = "sless-system/sless-object-store", "sless-builds/sless-object-store"
		systemRegistry, buildsRegistry = "sless-system/sless-registry", "sless-builds/sless-registry"
	)
	set := func(part, key, value string) func(secrets) {
		return func(s secrets) { s[partsKey(part)].Data[key] = []byte(value) }
	}
	tests := map[string]struct {
		damage func(secrets)
		now    time.Time
		want   []string
	}{
		"nothing to do":          {},
		"a copy is gone":         {damage: func(s secrets) { delete(s, client.ObjectKey{Namespace: buildsNamespace, Name: "sless-registry"}) }, want: []string{buildsRegistry}},
		"store's login is gone":  {damage: func(s secrets) { delete(s, partsKey("s3-login")) }, want: []string{"sless-demo/s3-login", system, builds}},
		"half a login":           {damage: set("s3-login", keySecret, ""), want: []string{"sless-demo/s3-login", system, builds}},
		"certificate is damaged": {damage: set("s3-tls", corev1.TLSCertKey, "x"), want: []string{"sless-demo/s3-tls", system}},
		"key of another":         {damage: func(s secrets) { exchange(t, s, corev1.TLSPrivateKeyKey) }, want: []string{"sless-demo/s3-tls", system}},
		"authority of another":   {damage: func(s secrets) { exchange(t, s, keyAuthority) }, want: []string{"sless-demo/s3-tls", system}},
		"a year is left":         {now: now.Add(certificateLife - 365*24*time.Hour)},
		"a month is left":        {now: now.Add(certificateLife - 30*24*time.Hour), want: []string{"sless-demo/s3-tls", system}},
		"another password":       {damage: set("registry-login", keyPassword, "x"), want: []string{"sless-demo/registry-login", systemRegistry, buildsRegistry}},
		"no users":               {damage: set("registry-login", keyUsers, ""), want: []string{"sless-demo/registry-login", systemRegistry, buildsRegistry}},
	}
	good := plan(t, secrets{}, now)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			have := secrets{}
			for key, secret := range good {
				have[key] = secret.DeepCopy()
			}
			if tc.damage != nil {
				tc.damage(have)
			}
			at := now
			if !tc.now.IsZero() {
				at = tc.now
			}
			want := map[string]bool{}
			for _, key := range tc.want {
				want[key] = true
			}
			if diff := cmp.Diff(want, written(have, plan(t, have, at))); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

// exchange takes a part of another certificate.
func exchange(t *testing.T, s secrets, key string) {
	t.Helper()
	other, err := newCertificate()
	if err != nil {
		t.Fatal(err)
	}
	s[partsKey("s3-tls")].Data[key] = other[key]
}

func TestVersion(t *testing.T) {
	t.Parallel()
	first := plan(t, secrets{}, time.Now())
	if again := plan(t, first, time.Now()); again.version() != first.version() {
		t.Error("the same Secrets have another version, which would start everything anew")
	}
	before := first.version()
	first[partsKey("s3-login")].Data[keySecret] = []byte("other")
	if plan(t, first, time.Now()).version() == before {
		t.Error("another login of the store has the same version, so that nobody would read it")
	}
}

func TestCertificateIsTrustedByItsAuthority(t *testing.T) {
	t.Parallel()
	data, err := newCertificate()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[keyAuthority]) {
		t.Fatal("the authority is no certificate")
	}
	client, server := net.Pipe()
	go func() { _ = tls.Server(server, &tls.Config{Certificates: []tls.Certificate{pair}}).Handshake() }()
	host, _, _ := strings.Cut("s3.sless-demo.svc.cluster.local:7070", ":")
	if err := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: host}).HandshakeContext(t.Context()); err != nil {
		t.Errorf("a client with the authority refuses the store: %v", err)
	}
}

func TestRegistryLogin(t *testing.T) {
	t.Parallel()
	all := plan(t, secrets{}, time.Now())
	login := all[partsKey("registry-login")].Data
	user, hash, _ := strings.Cut(strings.TrimSpace(string(login[keyUsers])), ":")
	if err := bcrypt.CompareHashAndPassword([]byte(hash), login[keyPassword]); err != nil || user != string(login[keyUser]) {
		t.Errorf("the registry would refuse the login of %s: %v", user, err)
	}
	secret := all[client.ObjectKey{Namespace: systemNamespace, Name: "sless-registry"}]
	keychain, err := image.KeychainFromJSON(secret.Data[corev1.DockerConfigJsonKey])
	if err != nil {
		t.Fatal(err)
	}
	repository, err := name.NewRepository(cluster.RegistryHost + "/a")
	if err != nil {
		t.Fatal(err)
	}
	found, err := keychain.Resolve(repository)
	if err != nil {
		t.Fatal(err)
	}
	auth, err := found.Authorization()
	if err != nil || auth.Username != user || auth.Password != string(login[keyPassword]) {
		t.Errorf("the Secret for pulling images holds another login, error %v", err)
	}
}

func TestEnsurePart(t *testing.T) {
	t.Parallel()
	c := fake.NewClientBuilder().Build()
	for _, part := range []string{partStore, partRegistry} {
		made, n, err := ensurePart(t.Context(), c, part)
		if err != nil || n != len(secretKeys(part)) || n != len(made) {
			t.Fatalf("%s: %d Secrets were written, error %v", part, n, err)
		}
		again, n, err := ensurePart(t.Context(), c, part)
		if err != nil || n != 0 || len(written(made, again)) != 0 {
			t.Errorf("%s: a second run wrote %d Secrets, error %v", part, n, err)
		}
	}
	copied := client.ObjectKey{Namespace: systemNamespace, Name: "sless-object-store"}
	change(t, c, copied, func(s *corev1.Secret) { s.Data[keySecret] = []byte("by hand") })
	if _, n, err := ensurePart(t.Context(), c, partStore); err != nil || n != 1 {
		t.Errorf("%d Secrets were written over a change by hand, error %v", n, err)
	}
	change(t, c, copied, func(s *corev1.Secret) { s.Labels = nil })
	if _, _, err := ensurePart(t.Context(), c, partStore); err == nil || !strings.Contains(err.Error(), copied.String()) {
		t.Errorf("somebody's own Secret is written over: %v", err)
	}
}

func change(t *testing.T, c client.Client, key client.ObjectKey, mutate func(*corev1.Secret)) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := c.Get(context.Background(), key, secret); err != nil {
		t.Fatal(err)
	}
	mutate(secret)
	if err := c.Update(context.Background(), secret); err != nil {
		t.Fatal(err)
	}
}
