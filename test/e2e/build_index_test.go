//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

var _ = Describe("A build from a private Python index", func() {
	It("gets wheels with a login that no image carries, and believes a hash only when it is right", func(ctx SpecContext) {
		needsThisMachine("the index")
		index := startPythonIndex("sless", "t0ken")
		namespace := newNamespace(ctx)
		Expect(k8s.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "index", Namespace: namespace},
			StringData: map[string]string{"pip.conf": fmt.Sprintf(
				"[global]\nindex-url = http://sless:t0ken@%s/simple/\ntrusted-host = %s\n", index.address, nodeAddress)},
		})).To(Succeed())
		fn := function(namespace, "wheels", "python3.11", map[string]string{
			"requirements.txt": "greeting==1.0\n",
			"handler.py": strings.Join([]string{
				"import os, greeting",
				"def handle(event, context):",
				"    return ' '.join([greeting.TEXT, *(str(os.path.exists(p)) for p in",
				"        ('/opt/deps/pip.conf', '/app/pip.conf', '/sless-index'))])",
			}, "\n"),
		})
		fn.Spec.Build.SecretName = "index"
		create(ctx, fn)
		answers(ctx, fn, "hello from a wheel False False False")
		Expect(index.served.Load()).To(BeNumerically("==", 1))

		By("pinning it by its hash")
		changeCode(ctx, fn, "requirements.txt", "greeting==1.0 --hash=sha256:"+index.hash+"\n")
		waitReady(ctx, fn)
		answers(ctx, fn, "hello from a wheel False False False")
		Expect(index.served.Load()).To(BeNumerically("==", 2))

		By("pinning it by a hash that is wrong")
		changeCode(ctx, fn, "requirements.txt", "greeting==1.0 --hash=sha256:"+strings.Repeat("0", 64)+"\n")
		Eventually(ready(ctx, fn)).WithTimeout(buildEnd).Should(Equal("False/BuildFailed"))
		message := condition(ctx, fn, v1alpha1.ConditionBuilt).Message
		Expect(message).To(ContainSubstring(index.hash))
		Expect(message).NotTo(ContainSubstring("t0ken"))
		Expect(get(ctx, fn).Body).To(Equal("hello from a wheel False False False"))

		By("going back, which builds nothing")
		changeCode(ctx, fn, "requirements.txt", "greeting==1.0\n")
		waitReady(ctx, fn)
		Expect(index.served.Load()).To(BeNumerically("==", 3))
	})
})

const wheelName = "greeting-1.0-py3-none-any.whl"

// pythonIndex is a package index as PEP 503 wants it, with one package, for those who have the password.
type pythonIndex struct {
	address, user, password string
	wheel                   []byte
	hash                    string
	served                  atomic.Int64
}

func startPythonIndex(user, password string) *pythonIndex {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", nodeAddress+":0")
	Expect(err).NotTo(HaveOccurred())
	index := &pythonIndex{address: listener.Addr().String(), user: user, password: password, wheel: pythonWheel()}
	sum := sha256.Sum256(index.wheel)
	index.hash = hex.EncodeToString(sum[:])
	server := &http.Server{Handler: index} //nolint:gosec // It lives as long as one story.
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	return index
}

func (i *pythonIndex) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	switch {
	case user != i.user || password != i.password:
		w.Header().Set("WWW-Authenticate", `Basic realm="index"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case r.URL.Path == "/simple/greeting/":
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="../../files/%s">%s</a></body></html>`, wheelName, wheelName)
	case r.URL.Path == "/files/"+wheelName:
		i.served.Add(1)
		_, _ = w.Write(i.wheel)
	default:
		http.NotFound(w, r)
	}
}

func pythonWheel() []byte {
	GinkgoHelper()
	out := &bytes.Buffer{}
	wheel := zip.NewWriter(out)
	const info = "greeting-1.0.dist-info/"
	for _, file := range []struct{ name, text string }{
		{"greeting.py", "TEXT = 'hello from a wheel'\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: e2e\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", "greeting.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		entry, err := wheel.Create(file.name)
		Expect(err).NotTo(HaveOccurred())
		_, err = entry.Write([]byte(file.text))
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(wheel.Close()).To(Succeed())
	return out.Bytes()
}
