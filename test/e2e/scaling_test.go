//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

var _ = Describe("A function that scales", SpecPriority(earlier), func() {
	var fn *v1alpha1.Function

	BeforeEach(func(ctx SpecContext) {
		needsKEDA(ctx)
		fn = scaling(newNamespace(ctx), "napper", napper)
	})

	It("goes to zero, is woken by a call, which is told so, stays while it is called, and leaves nothing", func(ctx SpecContext) {
		create(ctx, fn)
		asleep(ctx, fn)
		Expect(ready(ctx, fn)()).To(Equal("True/Ready"))
		first := get(ctx, fn)
		Expect(first.Status).To(Equal(http.StatusOK), first.Body)
		Expect(first.Body).To(Equal("awake"))
		Expect(first.Header.Get("X-Sless-Cold-Start")).To(Equal("true"))
		Expect(strings.Join(first.Header.Values("Server-Timing"), ", ")).To(And(
			ContainSubstring("handler;dur="), ContainSubstring("load;dur="), ContainSubstring("start;dur="), ContainSubstring("wait;dur=")))
		c := startCrowd(ctx, fn, 1, "")
		Eventually(func() string { return get(ctx, fn).Header.Get("X-Sless-Cold-Start") }).Should(Equal("false"))
		Consistently(wantedReplicas(ctx, fn), "10s").ShouldNot(BeZero(), "short calls keep it awake")
		c.end(10)
		Expect(ready(ctx, fn)()).To(Equal("True/Ready"))

		Expect(k8s.Delete(ctx, fn)).To(Succeed())
		Eventually(leftOf(ctx, fn)).Should(BeEmpty())
	})

	It("loses none of 200 calls that come at once while it is at zero", func(ctx SpecContext) {
		create(ctx, fn)
		asleep(ctx, fn)
		callAtOnce(ctx, fn, 200, "").end(200)
	})

	It("does not go to zero under a long call, which ends well also when the function is switched off", func(ctx SpecContext) {
		create(ctx, fn)
		asleep(ctx, fn)
		long := callAtOnce(ctx, fn, 1, "?nap=20")
		Eventually(wantedReplicas(ctx, fn)).ShouldNot(BeZero())
		Consistently(wantedReplicas(ctx, fn), "12s").ShouldNot(BeZero())
		t := trigger(fn.Namespace, "door", fn.Name)
		t.Spec.Enabled = new(false)
		Expect(k8s.Create(ctx, t)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal("False/Disabled"))
		refused := get(ctx, fn)
		Expect(refused.Status).To(Equal(http.StatusServiceUnavailable))
		Expect(refused.Body).To(ContainSubstring("Disabled"))
		long.end(1)
		Eventually(func() int { return len(replicasOf(ctx, fn)) }).Should(BeZero())
		Expect(scalingActive(ctx, fn)()).To(Equal("False/Paused"))
		Expect(k8s.Delete(ctx, t)).To(Succeed())
		waitReady(ctx, fn)
		answers(ctx, fn, "awake")
	})

	It("grows with calls in flight and shrinks after them", func(ctx SpecContext) {
		create(ctx, fn)
		c := startCrowd(ctx, fn, 8, "?nap=1")
		Eventually(func() int32 { return deploymentOf(ctx, fn).Status.ReadyReplicas }).Should(BeEquivalentTo(3))
		Eventually(scalingActive(ctx, fn)).Should(Equal("True/AtMaxReplicas"))
		c.end(10)
		asleep(ctx, fn)
	})

	It("grows with calls per second and shrinks after them", func(ctx SpecContext) {
		fn.Spec.Scaling.Concurrency, fn.Spec.Scaling.RequestsPerSecond = nil, ptr.To[int32](5)
		fn.Spec.Scaling.MinReplicas = ptr.To[int32](1)
		create(ctx, fn)
		c := startCrowd(ctx, fn, 2, "")
		Eventually(func() int32 { return deploymentOf(ctx, fn).Status.ReadyReplicas }).Should(BeEquivalentTo(3))
		c.end(10)
		Eventually(wantedReplicas(ctx, fn)).Should(BeEquivalentTo(1))
		Eventually(scalingActive(ctx, fn)).Should(Equal("True/Scaling"))
	})

	It("tries new code while it is at zero, and keeps the old code when that cannot be loaded", func(ctx SpecContext) {
		create(ctx, fn)
		asleep(ctx, fn)
		changeCode(ctx, fn, "handler.py", "import nothing_like_it\n"+napper)
		Eventually(ready(ctx, fn)).Should(Equal("False/HandlerLoadFailed"))
		Expect(condition(ctx, fn, v1alpha1.ConditionReady).Message).To(ContainSubstring("handler.py line 1"))
		Expect(get(ctx, fn).Body).To(Equal("awake"))
		changeCode(ctx, fn, "handler.py", strings.Replace(napper, "awake", "new", 1))
		waitReady(ctx, fn)
		answers(ctx, fn, "new")
	})

	It("loses no call while its code changes, and while it changes to fixed replicas and back", func(ctx SpecContext) {
		create(ctx, fn)
		c := startCrowd(ctx, fn, 2, "")
		c.busy()
		changeCode(ctx, fn, "handler.py", napper+"# again\n")
		waitReady(ctx, fn)
		scaled := fn.Spec.Scaling
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Scaling, f.Spec.Replicas = nil, ptr.To[int32](2) })
		Eventually(scalingActive(ctx, fn)).Should(Equal("False/FixedReplicas"))
		Eventually(func() int32 { return deploymentOf(ctx, fn).Status.ReadyReplicas }).Should(BeEquivalentTo(2))
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Scaling, f.Spec.Replicas = scaled, nil })
		Eventually(scalingActive(ctx, fn)).Should(HavePrefix("True/"))
		c.busy()
		c.end(10)
		asleep(ctx, fn)
	})
})

// leftOf names what is left of a Function in its deploy namespace.
func leftOf(ctx context.Context, fn *v1alpha1.Function) func() []string {
	return func() []string {
		names := []string{}
		for _, kind := range []metav1.TypeMeta{
			{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObjectList"}, {APIVersion: "http.keda.sh/v1beta1", Kind: "InterceptorRouteList"},
			{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscalerList"}, {APIVersion: "apps/v1", Kind: "DeploymentList"},
		} {
			list := &metav1.PartialObjectMetadataList{TypeMeta: kind}
			Expect(k8s.List(ctx, list, client.InNamespace(naming.DeployNamespace(fn.Namespace)))).To(Succeed())
			for _, item := range list.Items {
				if strings.Contains(item.Name, fn.Name) {
					names = append(names, kind.Kind+" "+item.Name)
				}
			}
		}
		return names
	}
}
