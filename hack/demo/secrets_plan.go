// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/hack/internal/cluster"
)

// Parts of the demo that have Secrets.
const (
	partStore    = "s3"
	partRegistry = "registry"
)

const (
	partsNamespace  = "sless-demo"
	systemNamespace = "sless-system"
	buildsNamespace = "sless-builds"

	keyAccess, keySecret                = "accessKey", "secretKey"
	keyAuthority                        = "ca.crt"
	keyUser, keyPassword, keyUsers      = "username", "password", "htpasswd"
	storeUser, registryUser             = "sless-demo", "sless"
	storeName                           = "s3.sless-demo.svc"
	certificateLife, certificateRenewal = 10 * 365 * 24 * time.Hour, 30 * 24 * time.Hour

	labelPartOf, partOf = "app.kubernetes.io/part-of", "sless"
)

// secrets are Secrets by namespace and name.
type secrets map[client.ObjectKey]*corev1.Secret

func partsKey(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: partsNamespace, Name: name}
}

// secretKeys lists the Secrets of a part, those first that the others are made of.
func secretKeys(part string) []client.ObjectKey {
	if part == partStore {
		return []client.ObjectKey{
			partsKey("s3-login"), partsKey("s3-tls"),
			{Namespace: systemNamespace, Name: "sless-object-store"}, {Namespace: buildsNamespace, Name: "sless-object-store"},
		}
	}
	return []client.ObjectKey{
		partsKey("registry-login"),
		{Namespace: systemNamespace, Name: "sless-registry"}, {Namespace: buildsNamespace, Name: "sless-registry"},
	}
}

// planSecrets returns all Secrets of a part as they should be. What is there and still good stays as it is; the rest is made
// anew.
func planSecrets(part string, have secrets, now time.Time) (secrets, error) {
	if part == partStore {
		return planStoreSecrets(have, now)
	}
	return planRegistrySecrets(have)
}

func planStoreSecrets(have secrets, now time.Time) (secrets, error) {
	want := secrets{}
	login := dataOf(have, partsKey("s3-login"))
	if len(login[keyAccess]) == 0 || len(login[keySecret]) == 0 {
		login = map[string][]byte{keyAccess: []byte(storeUser), keySecret: []byte(rand.Text())}
	}
	served := dataOf(have, partsKey("s3-tls"))
	if !certificateServes(served, now) {
		var err error
		if served, err = newCertificate(); err != nil {
			return nil, err
		}
	}
	want.add(partsKey("s3-login"), corev1.SecretTypeOpaque, login)
	want.add(partsKey("s3-tls"), corev1.SecretTypeTLS, served)
	// The manager hands the authority on to the pods of builds, so that only its own namespace has it.
	known := maps.Clone(login)
	known[keyAuthority] = served[keyAuthority]
	want.add(client.ObjectKey{Namespace: systemNamespace, Name: "sless-object-store"}, corev1.SecretTypeOpaque, known)
	want.add(client.ObjectKey{Namespace: buildsNamespace, Name: "sless-object-store"}, corev1.SecretTypeOpaque, login)
	return want, nil
}

func planRegistrySecrets(have secrets) (secrets, error) {
	want := secrets{}
	login := dataOf(have, partsKey("registry-login"))
	if !loginServes(login) {
		password := rand.Text()
		// The registry does this at every request. A password that nobody can guess needs no slow hash.
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			return nil, fmt.Errorf("hashing the password of the registry: %w", err)
		}
		login = map[string][]byte{
			keyUser: []byte(registryUser), keyPassword: []byte(password), keyUsers: []byte(registryUser + ":" + string(hash) + "\n"),
		}
	}
	want.add(partsKey("registry-login"), corev1.SecretTypeOpaque, login)
	config, err := dockerConfig(login, cluster.RegistryHost)
	if err != nil {
		return nil, err
	}
	for _, namespace := range []string{systemNamespace, buildsNamespace} {
		want.add(client.ObjectKey{Namespace: namespace, Name: "sless-registry"}, corev1.SecretTypeDockerConfigJson,
			map[string][]byte{corev1.DockerConfigJsonKey: config})
	}
	return want, nil
}

func dataOf(have secrets, key client.ObjectKey) map[string][]byte {
	if secret := have[key]; secret != nil {
		return secret.Data
	}
	return nil
}

func (s secrets) add(key client.ObjectKey, kind corev1.SecretType, data map[string][]byte) {
	s[key] = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{labelPartOf: partOf},
		},
		Type: kind, Data: data,
	}
}

// changed tells whether a Secret has to be written.
func changed(have, want *corev1.Secret) bool {
	return have == nil || have.Type != want.Type || !maps.EqualFunc(have.Data, want.Data, bytes.Equal)
}

// loginServes says whether the registry's login is whole: the password is that of the hash.
func loginServes(login map[string][]byte) bool {
	user, hash, found := strings.Cut(strings.TrimSpace(string(login[keyUsers])), ":")
	return found && user == string(login[keyUser]) &&
		bcrypt.CompareHashAndPassword([]byte(hash), login[keyPassword]) == nil
}

// dockerConfig is a docker config.json with the login for the hosts.
func dockerConfig(login map[string][]byte, hosts ...string) ([]byte, error) {
	auth := base64.StdEncoding.EncodeToString(slices.Concat(login[keyUser], []byte(":"), login[keyPassword]))
	auths := map[string]map[string]string{}
	for _, host := range hosts {
		auths[host] = map[string]string{"auth": auth}
	}
	return json.Marshal(map[string]any{"auths": auths})
}

// storeHosts are the names of the object store's certificate: those of its Service, and for a port-forward localhost.
func storeHosts() []string {
	return []string{storeName, storeName + ".cluster.local", "s3.sless-demo", "s3", "localhost"}
}

// newCertificate makes an authority and the certificate that it signs, and forgets the authority's key. They live long,
// since a store that starts anew has lost what was in it.
func newCertificate() (map[string][]byte, error) {
	hosts := storeHosts()
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: hosts[0], AlternateDNS: hosts[1:], AlternateIPs: []net.IP{net.IPv4(127, 0, 0, 1)}, MaxAge: certificateLife,
	})
	if err != nil {
		return nil, fmt.Errorf("making the certificate of the object store: %w", err)
	}
	certificates, err := cert.ParseCertsPEM(chain)
	if err != nil {
		return nil, err
	}
	authority, err := cert.EncodeCertificates(certificates[len(certificates)-1])
	if err != nil {
		return nil, err
	}
	return map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key, keyAuthority: authority}, nil
}

// certificateServes says whether the certificate is whole, for the right names, trusted by those who have the authority, and
// good for a while.
func certificateServes(data map[string][]byte, now time.Time) bool {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return false
	}
	authorities, err := cert.ParseCertsPEM(data[keyAuthority])
	if err != nil || pair.Leaf.CheckSignatureFrom(authorities[0]) != nil {
		return false
	}
	for _, host := range storeHosts() {
		if pair.Leaf.VerifyHostname(host) != nil {
			return false
		}
	}
	soon := now.Add(certificateRenewal)
	return soon.Before(pair.Leaf.NotAfter) && soon.Before(authorities[0].NotAfter) && !now.Before(pair.Leaf.NotBefore)
}

// version changes with what programs read at their start only: the login and the certificate of the object store.
func (s secrets) version() string {
	sum := sha256.New()
	for _, name := range []string{"s3-login", "s3-tls"} {
		data := dataOf(s, partsKey(name))
		for _, key := range slices.Sorted(maps.Keys(data)) {
			_, _ = fmt.Fprintf(sum, "%s %s %d\n%s", name, key, len(data[key]), data[key])
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}
