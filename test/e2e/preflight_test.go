//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

var _ = Describe("A function that was scaled to zero", func() {
	It("takes a new version over only when its handler loads, and then runs it", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "idle", v1)
		create(ctx, fn)
		scale := func(n int32) { change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Replicas = &n }) }
		image := func() string { return deploymentOf(ctx, fn).Spec.Template.Spec.Containers[0].Image }
		preflights := func() int {
			jobs := &batchv1.JobList{}
			Expect(k8s.List(ctx, jobs, client.InNamespace(naming.DeployNamespace(fn.Namespace)))).To(Succeed())
			return len(jobs.Items)
		}
		scale(0)
		Eventually(ready(ctx, fn)).Should(Equal("False/ScaledToZero"))
		old := image()

		By("a version that does not load")
		changeCode(ctx, fn, "handler.py", "import json\n\nnope(\n")
		Eventually(ready(ctx, fn)).Should(Equal("False/HandlerLoadFailed"))
		Expect(condition(ctx, fn, v1alpha1.ConditionReady).Message).To(ContainSubstring("handler.py line 3"))
		Expect(image()).To(Equal(old))

		By("going back: the old version is still there")
		changeCode(ctx, fn, "handler.py", v1)
		scale(1)
		waitReady(ctx, fn)
		answers(ctx, fn, "one")
		Eventually(preflights).Should(BeZero())

		By("a version that loads")
		scale(0)
		Eventually(ready(ctx, fn)).Should(Equal("False/ScaledToZero"))
		changeCode(ctx, fn, "handler.py", strings.ReplaceAll(v1, "one", "two"))
		Eventually(image).ShouldNot(Equal(old))
		Eventually(ready(ctx, fn)).Should(Equal("False/ScaledToZero"))
		Eventually(preflights).Should(BeZero())
		scale(1)
		waitReady(ctx, fn)
		answers(ctx, fn, "two")
	})

	It("is told of a first version that does not load", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "stillborn", "raise ValueError('no settings')\n")
		fn.Spec.Replicas = new(int32)
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal("False/HandlerLoadFailed"))
		Expect(condition(ctx, fn, v1alpha1.ConditionReady).Message).To(And(
			ContainSubstring("handler.py line 1"), ContainSubstring("no settings")))
		changeCode(ctx, fn, "handler.py", v1)
		Eventually(ready(ctx, fn)).Should(Equal("False/ScaledToZero"))
	})
})
