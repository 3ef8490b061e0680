//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

func missingSecretEnv() corev1.EnvVar {
	return corev1.EnvVar{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "no-such-secret"}, Key: "password",
	}}}
}

// The same behaviour in both languages. Each handler looks at the path to know what to do.
var handlers = map[string]map[string]string{
	"python3.11": {"handler.py": `
import time

def handle(event, context):
    what = context.request.path
    if what == "/echo":
        return event
    if what == "/request":
        return {"method": context.request.method, "query": context.request.query, "path": what,
                "function": context.function_name, "namespace": context.function_namespace}
    if what == "/full":
        return {"statusCode": 418, "headers": {"X-Tea": "green"}, "body": "short and stout"}
    if what == "/slow":
        time.sleep(30)
    if what == "/stream":
        def chunks():
            for i in range(3):
                yield f"chunk {i}\n"
        return chunks()
    if what == "/zero":
        return 0
    return None
`},
	"nodejs20": {"handler.js": `
exports.handle = async (event, context) => {
  const what = context.request.path;
  if (what === "/echo") return event;
  if (what === "/request") {
    return { method: context.request.method, query: context.request.query, path: what,
             function: context.functionName, namespace: context.functionNamespace };
  }
  if (what === "/full") return { statusCode: 418, headers: { "X-Tea": "green" }, body: "short and stout" };
  if (what === "/slow") await new Promise((done) => setTimeout(done, 30000));
  if (what === "/stream") {
    return (async function* () { for (let i = 0; i < 3; i++) yield "chunk " + i + "\n"; })();
  }
  if (what === "/zero") return 0;
  return null;
};
`},
}

// Versions of a language behave the same.
func init() { handlers["nodejs24"] = handlers["nodejs20"] }

var _ = Describe("A caller", Ordered, func() {
	functions := map[string]*v1alpha1.Function{}

	BeforeAll(func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		for name, files := range handlers {
			fn := function(namespace, "calls-"+strings.ReplaceAll(name, ".", "-"), name, files)
			fn.Spec.TimeoutSeconds = 3
			functions[name] = fn
			Expect(k8s.Create(ctx, fn)).To(Succeed())
		}
		for _, fn := range functions {
			waitReady(ctx, fn)
		}
	})

	for _, name := range slices.Sorted(maps.Keys(handlers)) {
		It("sends and gets every kind of value ("+name+")", func(ctx SpecContext) {
			fn := functions[name]
			binary := make([]byte, 256)
			for i := range binary {
				binary[i] = byte(i)
			}
			echoed := call(ctx, fn, http.MethodPost, "/echo", binary, contentType("application/octet-stream"))
			Expect([]byte(echoed.Body)).To(Equal(binary))
			Expect(echoed.Header.Get("Content-Type")).To(HavePrefix("application/octet-stream"))

			text := call(ctx, fn, http.MethodPut, "/echo", []byte("grüß dich"), contentType("text/plain; charset=utf-8"))
			Expect(text.Body).To(Equal("grüß dich"))
			Expect(text.Header.Get("Content-Type")).To(HavePrefix("text/plain"))

			object := call(ctx, fn, http.MethodPost, "/echo", []byte(`{"a":[1,null,"x"]}`), contentType("application/json"))
			Expect(object.Body).To(MatchJSON(`{"a":[1,null,"x"]}`))
			Expect(call(ctx, fn, http.MethodGet, "/zero", nil).Body).To(Equal("0"))
			Expect(call(ctx, fn, http.MethodGet, "/nothing", nil).Body).To(Equal("null"))
			Expect(call(ctx, fn, http.MethodHead, "/zero", nil).Status).To(Equal(http.StatusOK))

			full := call(ctx, fn, http.MethodGet, "/full", nil)
			Expect(full.Status).To(Equal(http.StatusTeapot))
			Expect(full.Header.Get("X-Tea")).To(Equal("green"))
			Expect(full.Body).To(Equal("short and stout"))

			broken := call(ctx, fn, http.MethodPost, "/echo", []byte("{"), contentType("application/json"))
			Expect(broken.Status).To(Equal(http.StatusBadRequest))
		})

		It("is told method, path, query and names ("+name+")", func(ctx SpecContext) {
			fn := functions[name]
			var seen struct{ Method, Path, Function, Namespace string }
			body := call(ctx, fn, http.MethodDelete, "/request?x=1&y=a%2Fb", nil).Body
			Expect(json.Unmarshal([]byte(body), &seen)).To(Succeed(), body)
			Expect(seen.Method).To(Equal("DELETE"))
			Expect(seen.Path).To(Equal("/request"))
			Expect(seen.Function).To(Equal(fn.Name))
			Expect(seen.Namespace).To(Equal(fn.Namespace))
			Expect(body).To(And(ContainSubstring(`"x"`), ContainSubstring("a/b")))
		})

		It("gets 504 after the timeout, and the next call is answered ("+name+")", func(ctx SpecContext) {
			fn := functions[name]
			Expect(call(ctx, fn, http.MethodGet, "/slow", nil).Status).To(Equal(http.StatusGatewayTimeout))
			Eventually(func() string { return call(ctx, fn, http.MethodGet, "/zero", nil).Body }).Should(Equal("0"))
		})

		It("reads a stream, and is refused a body over the limit ("+name+")", func(ctx SpecContext) {
			fn := functions[name]
			Expect(streamed(ctx, fn)).To(Equal([]string{"chunk 0", "chunk 1", "chunk 2"}))
			large := call(ctx, fn, http.MethodPost, "/echo", bytes.Repeat([]byte("x"), 33<<20))
			Expect(large.Status).To(Equal(http.StatusRequestEntityTooLarge))
		})
	}
})

func streamed(ctx context.Context, fn *v1alpha1.Function) []string {
	GinkgoHelper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, current(ctx, fn).Status.URL+"/stream", nil)
	Expect(err).NotTo(HaveOccurred())
	resp, err := http.DefaultClient.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	Expect(resp.TransferEncoding).To(ContainElement("chunked"), fmt.Sprint(resp.Header))
	lines := []string{}
	for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	return lines
}
