//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeAddress is this machine as the pods of the local cluster see it.
const nodeAddress = "10.244.0.1"

var _ = Describe("A build", func() {
	It("installs from a private index with a Secret, and the image does not carry it", func(ctx SpecContext) {
		needsThisMachine("the index")
		index := startNPMIndex("t0ken")
		namespace := newNamespace(ctx)
		fn := function(namespace, "private", "nodejs20", map[string]string{
			"package.json": `{"dependencies":{"@private/greeting":"1.0.0"}}`,
			"handler.js": strings.Join([]string{
				"const fs = require('fs');",
				"exports.handle = () => require('@private/greeting') + ' ' + fs.existsSync('/app/.npmrc') + fs.existsSync('/sless-index');",
			}, "\n"),
		})
		fn.Spec.Build.SecretName = "index"
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal("False/ConfigMissing"))
		Expect(k8s.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "index", Namespace: namespace},
			StringData: map[string]string{
				".npmrc": fmt.Sprintf("@private:registry=http://%s/\n//%s/:_authToken=t0ken\n", index.address, index.address),
			},
		})).To(Succeed())
		waitReady(ctx, fn)
		answers(ctx, fn, "private hello falsefalse")
		Expect(index.refused.Load()).To(BeZero())
	})

	It("is stopped when its function is deleted", func(ctx SpecContext) {
		fn := function(newNamespace(ctx), "hasty", "nodejs20", map[string]string{
			"package.json": `{"dependencies":{"slugify":"1.6.5"},"scripts":{"preinstall":"sleep 600"}}`,
			"handler.js":   "exports.handle = () => 1",
		})
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal("Unknown/Building"))
		jobs := buildsOf(ctx, fn)
		Expect(jobs).To(HaveLen(1))
		Expect(k8s.Delete(ctx, fn)).To(Succeed())
		Eventually(gone(ctx, fn)).Should(BeTrue())
		Eventually(gone(ctx, &jobs[0])).Should(BeTrue())
	})

	It("gives install scripts nothing to steal", func(ctx SpecContext) {
		fn := function(newNamespace(ctx), "thief", "nodejs20", map[string]string{
			"package.json": `{"dependencies":{"slugify":"1.6.4"},"scripts":{"preinstall":` + quoted(strings.Join([]string{
				"{ env; ls -A /kaniko/.docker /var/run/secrets 2>&1; cat /proc/1/environ 2>&1 | tr '\\0' '\\n';",
				"ls /docker /root/.docker 2>&1; } > /app/loot.txt; chmod 644 /app/loot.txt",
			}, " ")) + `}}`,
			"handler.js": "exports.handle = () => require('fs').readFileSync('/app/loot.txt', 'utf8')",
		})
		create(ctx, fn)
		loot := get(ctx, fn).Body
		Expect(loot).To(ContainSubstring("PATH="), "the script must have run")
		for _, secret := range []string{"AWS_", "accessKey", "secretKey", "auths", "serviceaccount"} {
			Expect(strings.ToLower(loot)).NotTo(ContainSubstring(strings.ToLower(secret)))
		}
	})
})

func quoted(text string) string {
	data, err := json.Marshal(text)
	Expect(err).NotTo(HaveOccurred())
	return string(data)
}

// npmIndex is a small private package index: one package, for those who have the token.
type npmIndex struct {
	address string
	token   string
	tarball []byte
	refused atomic.Int64
}

func startNPMIndex(token string) *npmIndex {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", nodeAddress+":0")
	Expect(err).NotTo(HaveOccurred())
	index := &npmIndex{address: listener.Addr().String(), token: token, tarball: npmTarball()}
	server := &http.Server{Handler: index} //nolint:gosec // It lives as long as one story.
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	return index
}

func (i *npmIndex) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+i.token {
		i.refused.Add(1)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if strings.HasSuffix(r.URL.Path, ".tgz") {
		_, _ = w.Write(i.tarball)
		return
	}
	sum := sha512.Sum512(i.tarball)
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"name":"@private/greeting","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{
		"name":"@private/greeting","version":"1.0.0","dist":{"tarball":"http://%s/greeting-1.0.0.tgz","integrity":"sha512-%s"}}}}`,
		i.address, base64.StdEncoding.EncodeToString(sum[:]))
}

func npmTarball() []byte {
	GinkgoHelper()
	out := &bytes.Buffer{}
	zipped := gzip.NewWriter(out)
	packed := tar.NewWriter(zipped)
	for name, text := range map[string]string{
		"package/package.json": `{"name":"@private/greeting","version":"1.0.0","main":"index.js"}`,
		"package/index.js":     "module.exports = 'private hello';",
	} {
		Expect(packed.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})).To(Succeed())
		_, err := packed.Write([]byte(text))
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(packed.Close()).To(Succeed())
	Expect(zipped.Close()).To(Succeed())
	return out.Bytes()
}
