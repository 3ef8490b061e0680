//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

const buildsNamespace = "sless-builds"

var _ = Describe("A fault of the platform during a build", Serial, func() {
	It("(no quota left for build pods) is told with the API server's words and passes by itself", func(ctx SpecContext) {
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "e2e-no-pods", Namespace: buildsNamespace},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				corev1.ResourcePods: resource.MustParse("0"),
			}},
		}
		Expect(k8s.Create(ctx, quota)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, quota))).To(Succeed()) })
		Eventually(func() int {
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(quota), quota)).To(Succeed())
			return len(quota.Status.Hard)
		}).Should(Equal(1), "the quota must be in force")
		fn := function(newNamespace(ctx), "starved", "nodejs20", map[string]string{
			"package.json": `{"dependencies":{"slugify":"1.6.6"}}`,
			"handler.js":   "exports.handle = () => require('slugify')('got a pod')",
		})
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal("False/QuotaExceeded"))
		built := condition(ctx, fn, v1alpha1.ConditionBuilt)
		Expect(built.Message).To(And(ContainSubstring("exceeded quota: e2e-no-pods"), ContainSubstring("pods=0")))
		Expect(condition(ctx, fn, v1alpha1.ConditionReconciling).Status).To(Equal(metav1.ConditionTrue))
		Expect(k8s.Delete(ctx, quota)).To(Succeed())
		waitReady(ctx, fn)
		answers(ctx, fn, "got-a-pod")
	})

	It("(registry gone in the middle of a push) passes by itself when the registry is back", func(ctx SpecContext) {
		needsThisMachine("what cuts the registry off")
		fn := function(newNamespace(ctx), "heavy", "nodejs20", map[string]string{
			"package.json": `{"dependencies":{"slugify":"1.6.6"},
				"scripts":{"preinstall":"head -c 60000000 /dev/urandom > /app/heavy.bin"}}`,
			"handler.js": "exports.handle = () => String(require('fs').statSync('/app/heavy.bin').size)",
		})
		mend := cut(ctx, "registry")
		proxy := startFailingRegistry(ctx, 10<<20)
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		By("waiting until the push has begun")
		Eventually(proxy.failed.Load).WithTimeout(buildEnd).Should(BeTrue(), "the push must have begun")
		By("waiting until the fault is told")
		Eventually(ready(ctx, fn)).WithTimeout(buildEnd).Should(Equal("False/" + v1alpha1.ReasonRegistryUnavailable))
		Expect(condition(ctx, fn, v1alpha1.ConditionReconciling).Status).To(Equal(metav1.ConditionTrue))
		By("mending it")
		proxy.remove(ctx)
		mend()
		waitReady(ctx, fn)
		answers(ctx, fn, "60000000")
	})
})

// failingRegistry stands between the cluster and the demo's registry, and breaks down in the middle of an upload.
type failingRegistry struct {
	failed atomic.Bool
	left   atomic.Int64
	server *http.Server
	slice  *discoveryv1.EndpointSlice
}

// startFailingRegistry takes the place of the registry, whose Service was cut, until so many bytes were uploaded.
func startFailingRegistry(ctx context.Context, uploaded int64) *failingRegistry {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(k8s.List(ctx, pods, client.InNamespace("sless-demo"), client.MatchingLabels{"app.kubernetes.io/name": "registry"})).To(Succeed())
	Expect(pods.Items).NotTo(BeEmpty())
	backend := &url.URL{Scheme: "http", Host: net.JoinHostPort(pods.Items[0].Status.PodIP, "5000")}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", nodeAddress+":0")
	Expect(err).NotTo(HaveOccurred())
	f := &failingRegistry{}
	f.left.Store(uploaded)
	f.server = &http.Server{ //nolint:gosec // It lives as long as one story.
		ErrorLog: log.New(io.Discard, "", 0),
		Handler: &httputil.ReverseProxy{
			ErrorLog: log.New(io.Discard, "", 0),
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(backend)
				r.Out.Host = r.In.Host
				if r.Out.Body != nil {
					r.Out.Body = &failingBody{ReadCloser: r.Out.Body, registry: f}
				}
			},
		},
	}
	go func() { _ = f.server.Serve(listener) }()
	DeferCleanup(f.server.Close)
	address, ok := listener.Addr().(*net.TCPAddr)
	Expect(ok).To(BeTrue())
	f.slice = &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "registry-e2e", Namespace: "sless-demo",
			Labels: map[string]string{discoveryv1.LabelServiceName: "registry", discoveryv1.LabelManagedBy: "e2e.sless.io"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{nodeAddress}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new(string), Port: new(int32(address.Port))}},
	}
	service := &corev1.Service{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "sless-demo", Name: "registry"}, service)).To(Succeed())
	f.slice.Ports[0].Name = &service.Spec.Ports[0].Name
	Expect(k8s.Create(ctx, f.slice)).To(Succeed())
	DeferCleanup(f.remove)
	return f
}

func (f *failingRegistry) remove(ctx context.Context) {
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, f.slice))).To(Succeed())
}

// failingBody counts what is uploaded, and takes the registry away when it was enough.
type failingBody struct {
	io.ReadCloser

	registry *failingRegistry
}

func (b *failingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.registry.left.Add(-int64(n)) < 0 && !b.registry.failed.Swap(true) {
		_ = b.registry.server.Close()
	}
	return n, err
}
