//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

// nightly is a right cron Trigger of a Function that need not exist.
func nightly(namespace, name string) *testutil.TriggerWrapper {
	return testutil.MakeTrigger(name, namespace, "hello").Cron("0 3 * * *", "Europe/Berlin")
}

var _ = Describe("A mistake", func() {
	It("is told when it is applied, with the field and the fix, and nothing is stored", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		variable := python(namespace, "hello", v1)
		variable.Spec.Env = []corev1.EnvVar{{Name: "MY VAR", Value: "1"}}
		tooLong := testutil.MakeFunctionJob(strings.Repeat("j", 53), namespace, "hello").Obj()
		for _, tc := range []struct {
			obj   client.Object
			words []string
		}{
			{function(namespace, "hello", "python2", map[string]string{"handler.py": v1}), []string{"spec.runtime", "python3.11"}},
			{function(namespace, "hello", "python3.11", map[string]string{"main.py": v1}), []string{"spec.entrypoint", "handler"}},
			{variable, []string{"spec.env[MY VAR].name", "such as GREETING"}},
			{nightly(namespace, "t").Cron("61 * * * *", "").Obj(), []string{"spec.cron.schedule", "minute hour day month weekday"}},
			{nightly(namespace, "t").Cron("@daily", "Berlin").Obj(), []string{"spec.cron.timeZone", "Europe/Berlin"}},
			{tooLong, []string{"metadata.name", "52 characters"}},
		} {
			err := k8s.Create(ctx, tc.obj)
			Expect(err).To(HaveOccurred())
			for _, word := range tc.words {
				Expect(err.Error()).To(ContainSubstring(word))
			}
		}
		functions := &v1alpha1.FunctionList{}
		Expect(k8s.List(ctx, functions, client.InNamespace(namespace))).To(Succeed())
		Expect(functions.Items).To(BeEmpty())
	})

	DescribeTable("in a change is told too, and the version that is there goes on",
		func(ctx SpecContext, mutate func(*v1alpha1.Function), words ...string) {
			fn := python(newNamespace(ctx), "hello", v1)
			create(ctx, fn)
			now := current(ctx, fn)
			before := now.DeepCopy()
			mutate(now)
			err := k8s.Patch(ctx, now, client.MergeFrom(before))
			Expect(err).To(HaveOccurred())
			for _, word := range words {
				Expect(err.Error()).To(ContainSubstring(word))
			}
			Expect(current(ctx, fn).ResourceVersion).To(Equal(before.ResourceVersion))
			answers(ctx, fn, "one")
		},
		Entry("unknown runtime", func(f *v1alpha1.Function) { f.Spec.Runtime = "cobol85" }, "spec.runtime", "nodejs20"),
		Entry("missing entrypoint file", func(f *v1alpha1.Function) { f.Spec.Entrypoint = "main.handle" },
			"spec.entrypoint", "main.py"),
		Entry("source over the limit", func(f *v1alpha1.Function) {
			f.Spec.Source.Inline.Files["large.txt"] = strings.Repeat("x", v1alpha1.MaxInlineSourceBytes)
		}, "spec.source.inline.files", "524288"),
		Entry("a path out of the folder", func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["../evil.py"] = "" },
			"spec.source.inline.files", "../evil.py"),
		Entry("more memory asked for than allowed", func(f *v1alpha1.Function) {
			f.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
			f.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
		}, "spec.resources.requests[memory]", "lower it or raise"),
	)
})

var _ = Describe("A cluster whose sless is down", Serial, func() {
	It("refuses changes with a clear error, and can be cleaned up all the same", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		fn := python(namespace, "hello", v1)
		create(ctx, fn)
		trigger, job := nightly(namespace, "t").Obj(), testutil.MakeFunctionJob("j", namespace, "hello").Obj()
		Expect(k8s.Create(ctx, trigger)).To(Succeed())
		Expect(k8s.Create(ctx, job)).To(Succeed())
		stopManager(ctx)

		Expect(k8s.Create(ctx, nightly(namespace, "later").Obj())).To(MatchError(And(
			ContainSubstring(`failed calling webhook "vtrigger.sless.io"`), ContainSubstring("sless-webhook-service"))))
		Expect(k8s.Patch(ctx, fn.DeepCopy(), mergePatch(`{"metadata":{"labels":{"team":"a"}}}`))).To(Succeed())
		answers(ctx, fn, "one")

		for _, obj := range []client.Object{fn, trigger, job} {
			Expect(k8s.Delete(ctx, obj)).To(Succeed())
			// Those that take something down first wait for the manager, or for somebody who does not want to.
			err := k8s.Patch(ctx, obj, mergePatch(`{"metadata":{"finalizers":null}}`))
			Expect(client.IgnoreNotFound(err)).To(Succeed())
			Eventually(gone(ctx, obj)).Should(BeTrue())
		}
	})
})

func mergePatch(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }
