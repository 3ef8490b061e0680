// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"errors"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
	"github.com/naeel/sless/internal/webhook/v1alpha1/defaulting"
)

func function(namespace string) *testutil.FunctionWrapper {
	return testutil.MakeFunction("f", namespace).File("handler.py", "def handle(event): return 1")
}

// apply is a server-side apply of the spec and the name alone.
func apply(ctx context.Context, obj client.Object, opts ...client.ApplyOption) (*unstructured.Unstructured, error) {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	Expect(err).NotTo(HaveOccurred())
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	opts = append(opts, client.FieldOwner("user"))
	err = k8sClient.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), opts...)
	return u, err
}

func get[T client.Object](ctx context.Context, obj T) T {
	GinkgoHelper()
	Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
	return obj
}

// eventsAbout lists the events about a Function, or about all, as kubectl events --for does.
func eventsAbout(ctx context.Context, namespace, name string) func() []corev1.Event {
	return func() []corev1.Event {
		fields := client.MatchingFields{"involvedObject.kind": "Function", "involvedObject.apiVersion": "sless.io/v1alpha1"}
		if name != "" {
			fields["involvedObject.name"] = name
		}
		list := &corev1.EventList{}
		Expect(k8sClient.List(ctx, list, client.InNamespace(namespace), fields)).To(Succeed())
		return list.Items
	}
}

var _ = Describe("A mistake", func() {
	DescribeTable("is told with the field and the fix", func(ctx SpecContext, make func(namespace string) client.Object, words ...string) {
		obj := make(newNamespace(ctx))
		_, err := apply(ctx, obj)
		Expect(err).To(HaveOccurred())
		for _, word := range words {
			Expect(err.Error()).To(ContainSubstring(word))
		}
		Expect(k8sClient.Create(ctx, obj, client.DryRunAll)).To(MatchError(ContainSubstring(words[0])), "on a dry run too")
		err = k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "nothing may be stored")
	},
		Entry("unknown runtime", func(ns string) client.Object { return function(ns).Runtime("perl").Obj() },
			`spec.runtime`, `"perl"`, `"python3.11"`, "Function.sless.io"),
		Entry("entrypoint without its file", func(ns string) client.Object { return function(ns).Entrypoint("main.handle").Obj() },
			"spec.entrypoint", "main"),
		Entry("name of a variable", func(ns string) client.Object { return function(ns).Env("MY VAR", "1").Obj() },
			"spec.env[MY VAR].name", "letters, digits"),
		Entry("inline source of more than 512 KiB", func(ns string) client.Object {
			return function(ns).File("big.txt", strings.Repeat("x", 512<<10)).Obj()
		}, "spec.source.inline.files", "zip"),
		Entry("several at once", func(ns string) client.Object { return function(ns).Runtime("perl").Env("A B", "").Obj() },
			"spec.runtime", "spec.env[A B].name"),
		Entry("schedule", func(ns string) client.Object {
			return testutil.MakeTrigger("t", ns, "f").Cron("every day", "").Obj()
		}, "spec.cron.schedule", "@daily", "Trigger.sless.io"),
		Entry("time zone", func(ns string) client.Object {
			return testutil.MakeTrigger("t", ns, "f").Cron("@daily", "Berlin").Obj()
		}, "spec.cron.timeZone", "Europe/Berlin"),
		Entry("event of more than 64 KiB", func(ns string) client.Object {
			return testutil.MakeTrigger("t", ns, "f").Cron("@daily", "").Event(`"` + strings.Repeat("x", 70<<10) + `"`).Obj()
		}, "spec.cron.event", "65536"),
		Entry("event of more than 1 MiB", func(ns string) client.Object {
			return testutil.MakeFunctionJob("j", ns, "f").Run(1).Event(`"` + strings.Repeat("x", 1<<20) + `"`).Obj()
		}, "spec.event", "FunctionJob.sless.io"),
		Entry("long name", func(ns string) client.Object {
			return testutil.MakeFunctionJob(strings.Repeat("j", 53), ns, "f").Run(1).Obj()
		}, "metadata.name", "52"),
	)

	It("in the form is told by the schema, in the user's words", func(ctx SpecContext) {
		fn := &unstructured.Unstructured{}
		fn.SetAPIVersion("sless.io/v1alpha1")
		fn.SetKind("Function")
		fn.SetName("f")
		fn.SetNamespace(newNamespace(ctx))
		Expect(k8sClient.Create(ctx, fn.DeepCopy())).To(MatchError(ContainSubstring("spec: Required value")))
		for path, value := range map[string]any{
			"env": "GREETING=hello", "timeoutSeconds": int64(99_999_999_999), "runtime": []any{"python3.11"}, "volumes": int64(1),
		} {
			spec := map[string]any{
				"runtime": "python3.11", "source": map[string]any{"inline": map[string]any{"files": map[string]any{"handler.py": ""}}},
			}
			spec[path] = value
			wrong := fn.DeepCopy()
			wrong.Object["spec"] = spec
			Expect(k8sClient.Create(ctx, wrong)).To(MatchError(ContainSubstring("spec."+path+": Invalid value")), path)
		}
		Expect(k8sClient.Create(ctx, function(fn.GetNamespace()).Obj())).To(Succeed())
		stored := get(ctx, fn.DeepCopy())
		delete(stored.Object, "spec")
		Expect(k8sClient.Update(ctx, stored)).To(MatchError(ContainSubstring("spec: Required value")))
	})

	It("is refused when a right object is changed into it, and by the schema where that can tell", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		trigger := testutil.MakeTrigger("t", namespace, "f").Cron("@daily", "").Obj()
		Expect(k8sClient.Create(ctx, trigger)).To(Succeed())
		patch := func(text string) error {
			return k8sClient.Patch(ctx, trigger.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)))
		}
		Expect(patch(`{"spec":{"cron":{"schedule":"nonsense"}}}`)).To(MatchError(ContainSubstring("spec.cron.schedule")))
		Expect(patch(`{"spec":{"type":"http","cron":null}}`)).To(MatchError(ContainSubstring("create another Trigger")))
		Expect(patch(`{"spec":{"cron":{"schedule":"@hourly"}}}`)).To(Succeed())
	})
})

var _ = Describe("A Function", func() {
	It("gets the runtime's entrypoint, and its env sorted with a warning", func(ctx SpecContext) {
		fn := function(newNamespace(ctx)).Env("B", "2").Env("A", "1").Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		Expect(fn.Spec.Entrypoint).To(Equal("handler.handle"))
		Expect(fn.Spec.Env).To(Equal([]corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}))
		Expect(warnings.take()).To(Equal([]string{defaulting.SortedEnvWarning}))
	})

	It("is not written again when the same is applied again, sorted or not", func(ctx SpecContext) {
		unsorted := function(newNamespace(ctx)).Env("B", "2").Env("A", "1").Obj()
		first, err := apply(ctx, unsorted)
		Expect(err).NotTo(HaveOccurred())
		for range 3 {
			again, err := apply(ctx, unsorted)
			Expect(err).NotTo(HaveOccurred())
			Expect(again.GetResourceVersion()).To(Equal(first.GetResourceVersion()))
		}
	})

	It("of a runtime past its end of life works, with a warning", func(ctx SpecContext) {
		fn := testutil.MakeFunction("f", newNamespace(ctx)).Runtime("nodejs20").File("handler.js", "").Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		Expect(warnings.take()).To(ConsistOf(And(ContainSubstring("end of life"), ContainSubstring("nodejs24"))))
	})

	It("changes nothing on a dry run", func(ctx SpecContext) {
		fn := function(newNamespace(ctx)).Env("B", "2").Env("A", "1").Obj()
		Expect(k8sClient.Create(ctx, fn, client.DryRunAll)).To(Succeed())
		Expect(fn.Spec.Entrypoint).To(Equal("handler.handle"), "the answer tells what would be stored")
		Expect(apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(fn), fn))).To(BeTrue())
	})

	It("of 512 KiB can be changed: the conditions of the webhooks cost little enough", func(ctx SpecContext) {
		fn := function(newNamespace(ctx)).File("big.txt", strings.Repeat("x", 511<<10)).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		fn.Spec.Source.Inline.Files["big.txt"] = strings.Repeat("y", 511<<10)
		Expect(k8sClient.Update(ctx, fn)).To(Succeed())
		fn.Labels = map[string]string{"a": "b"}
		Expect(k8sClient.Update(ctx, fn)).To(Succeed())
	})
})

var _ = Describe("A Function from before a rule existed", func() {
	broken := func(ctx context.Context) *v1alpha1.Function {
		fn := function(newNamespace(ctx)).Runtime("perl").Env("B", "2").Env("A", "1").Obj()
		withoutWebhooks(ctx, func() { Expect(k8sClient.Create(ctx, fn)).To(Succeed()) })
		return fn
	}

	It("can have its labels changed, without anything else changing", func(ctx SpecContext) {
		fn := broken(ctx)
		fn.Labels = map[string]string{"team": "a"}
		Expect(k8sClient.Update(ctx, fn)).To(Succeed())
		Expect(fn.Spec.Env[0].Name).To(Equal("B"))
		Expect(warnings.take()).To(BeEmpty())
	})

	It("can have its status and its finalizers written", func(ctx SpecContext) {
		fn := broken(ctx)
		fn.Status.Phase = v1alpha1.PhaseFailed
		Expect(k8sClient.Status().Update(ctx, fn)).To(Succeed())
		fn.Finalizers = []string{v1alpha1.FinalizerFunction}
		Expect(k8sClient.Update(ctx, fn)).To(Succeed())
		fn.Finalizers = nil
		Expect(k8sClient.Update(ctx, fn)).To(Succeed())
	})

	It("can be changed in other respects, with a warning, and not be made worse", func(ctx SpecContext) {
		fn := broken(ctx)
		fn.Spec.TimeoutSeconds = 30
		Expect(k8sClient.Update(ctx, fn)).To(Succeed())
		Expect(warnings.take()).To(ContainElement(And(ContainSubstring("spec.runtime"), ContainSubstring("was so before"))))
		fn.Spec.Env = append(fn.Spec.Env, corev1.EnvVar{Name: "A B"})
		Expect(k8sClient.Update(ctx, fn)).To(MatchError(And(
			ContainSubstring("spec.env[A B].name"), Not(ContainSubstring("spec.runtime: Unsupported")))))
	})

	It("can be deleted, and can change in every way while it goes", func(ctx SpecContext) {
		fn := broken(ctx)
		fn.Finalizers = []string{"example.com/wait"}
		Expect(k8sClient.Update(ctx, fn)).To(Succeed())
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
		fn = get(ctx, fn)
		Expect(fn.DeletionTimestamp.IsZero()).To(BeFalse())
		fn.Spec.Runtime = "cobol"
		Expect(k8sClient.Update(ctx, fn)).To(Succeed())
		fn.Finalizers = nil
		Expect(k8sClient.Update(ctx, fn)).To(Succeed())
		Expect(apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(fn), fn))).To(BeTrue())
	})
})

var _ = Describe("A Trigger and a FunctionJob", func() {
	It("may come before their Function, with a warning", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		missing := ConsistOf(And(ContainSubstring("spec.functionRef.name"), ContainSubstring("no Function f in namespace "+namespace)))
		Expect(k8sClient.Create(ctx, testutil.MakeTrigger("t", namespace, "f").Obj())).To(Succeed())
		Expect(warnings.take()).To(missing)
		Expect(k8sClient.Create(ctx, testutil.MakeFunctionJob("j", namespace, "f").Run(1).Obj())).To(Succeed())
		Expect(warnings.take()).To(missing)
	})

	It("from before a rule existed can be changed in other respects, with a warning, and deleted", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(k8sClient.Create(ctx, function(namespace).Obj())).To(Succeed())
		trigger := testutil.MakeTrigger("t", namespace, "f").Cron("nonsense", "").Obj()
		job := testutil.MakeFunctionJob(strings.Repeat("j", 53), namespace, "f").Obj()
		withoutWebhooks(ctx, func() {
			Expect(k8sClient.Create(ctx, trigger)).To(Succeed())
			Expect(k8sClient.Create(ctx, job)).To(Succeed())
		})
		trigger.Spec.Cron.TimeZone = "Europe/Berlin"
		Expect(k8sClient.Update(ctx, trigger)).To(Succeed())
		Expect(warnings.take()).To(ConsistOf(And(ContainSubstring("spec.cron.schedule"), ContainSubstring("was so before"))))
		trigger.Spec.Cron.TimeZone = "Berlin"
		Expect(k8sClient.Update(ctx, trigger.DeepCopy())).To(MatchError(And(
			ContainSubstring("spec.cron.timeZone"), Not(ContainSubstring("spec.cron.schedule")))))
		job.Spec.RunID = 1
		Expect(k8sClient.Update(ctx, job)).To(Succeed())
		Expect(warnings.take()).To(ConsistOf(And(ContainSubstring("metadata.name"), ContainSubstring("was so before"))))
		Expect(k8sClient.Delete(ctx, trigger)).To(Succeed())
		Expect(k8sClient.Delete(ctx, job)).To(Succeed())
	})

	It("get no warning when they come right after it", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(k8sClient.Create(ctx, function(namespace).Obj())).To(Succeed())
		Expect(k8sClient.Create(ctx, testutil.MakeTrigger("t", namespace, "f").Obj())).To(Succeed())
		Expect(k8sClient.Create(ctx, testutil.MakeFunctionJob("j", namespace, "f").Run(1).Event(`{"a":1}`).Obj())).To(Succeed())
		Expect(warnings.take()).To(BeEmpty())
	})
})

var _ = Describe("The review of code", func() {
	It("refuses a Function with the reviewer's reason", func(ctx SpecContext) {
		reviews.answer(func(context.Context) (Review, error) { return Review{Denied: "it mines"}, nil })
		err := k8sClient.Create(ctx, function(newNamespace(ctx)).Obj())
		Expect(err).To(MatchError(ContainSubstring("code validation failed: it mines")))
	})

	It("tells of refused code in an event, also when there is no Function yet, and never on a dry run", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		stored := function(namespace).Obj()
		Expect(k8sClient.Create(ctx, stored)).To(Succeed())
		digest := "sha256:" + strings.Repeat("a1", 32)
		refuse := func(reason, digest string) {
			reviews.answer(func(context.Context) (Review, error) { return Review{Denied: reason, Digest: digest}, nil })
		}
		refuse("it mines", digest)

		By("creating on a dry run")
		fresh := func() *v1alpha1.Function {
			fn := function(namespace).Obj()
			fn.Name = "fresh"
			return fn
		}
		Expect(k8sClient.Create(ctx, fresh(), client.DryRunAll)).NotTo(Succeed())
		_, err := apply(ctx, fresh(), client.DryRunAll)
		Expect(err).To(HaveOccurred())
		By("creating in different ways, which is one event")
		for range 2 {
			Expect(k8sClient.Create(ctx, fresh())).NotTo(Succeed())
			_, err = apply(ctx, fresh())
			Expect(err).To(HaveOccurred())
		}
		Eventually(eventsAbout(ctx, namespace, "fresh")).Should(ConsistOf(And(
			HaveField("Reason", "CodeRejected"), HaveField("Type", "Warning"), HaveField("InvolvedObject.UID", BeEmpty()),
			HaveField("Message", "the review refused the inline code "+digest+", and nothing was changed: it mines"),
			HaveField("Series.Count", BeEquivalentTo(2)), // The next ones are written some minutes later.
		)))

		By("creating under a name that the API server makes up")
		nameless := fresh()
		nameless.Name, nameless.GenerateName = "", "made-up-"
		Expect(k8sClient.Create(ctx, nameless)).NotTo(Succeed())
		Eventually(eventsAbout(ctx, namespace, "")).Should(ContainElement(HaveField("InvolvedObject.Name", HavePrefix("made-up-"))))

		By("changing one that is there")
		stored.Spec.Source.Inline.Files["handler.py"] = "mine()"
		Expect(k8sClient.Update(ctx, stored.DeepCopy())).NotTo(Succeed())
		Eventually(eventsAbout(ctx, namespace, stored.Name)).Should(ConsistOf(HaveField("InvolvedObject.UID", stored.UID)))

		By("refusing what is not acceptable as code at all, which is no refusal of the review")
		refuse("a bad path", "")
		other := fresh()
		other.Name = "other"
		Expect(k8sClient.Create(ctx, other)).NotTo(Succeed())
		Consistently(eventsAbout(ctx, namespace, "other")).WithTimeout(time.Second).Should(BeEmpty())
	})

	It("passes warnings on, and is told of dry runs", func(ctx SpecContext) {
		reviews.answer(func(context.Context) (Review, error) { return Review{Warnings: []string{"not reviewed"}}, nil })
		before := reviews.dryRuns.Load()
		Expect(k8sClient.Create(ctx, function(newNamespace(ctx)).Obj(), client.DryRunAll)).To(Succeed())
		Expect(warnings.take()).To(ConsistOf("not reviewed"))
		Expect(reviews.dryRuns.Load()).To(Equal(before + 1))
	})

	It("refuses when it cannot be done, and has a time limit below the webhook's", func(ctx SpecContext) {
		reviews.answer(func(ctx context.Context) (Review, error) {
			if end, ok := ctx.Deadline(); !ok || time.Until(end) > ReviewTimeout {
				return Review{}, errors.New("there is no limit")
			}
			return Review{}, errors.New("the model is ill")
		})
		Expect(k8sClient.Create(ctx, function(newNamespace(ctx)).Obj())).To(MatchError(ContainSubstring("the model is ill")))
	})

	It("is asked about new inline code alone, and after all other rules", func(ctx SpecContext) {
		fn := function(newNamespace(ctx)).Obj()
		calls := func(change func() error) int32 {
			before := reviews.calls.Load()
			Expect(change()).To(Succeed())
			return reviews.calls.Load() - before
		}
		Expect(calls(func() error { return k8sClient.Create(ctx, fn) })).To(BeEquivalentTo(1))
		update := func(change func()) func() error {
			return func() error { change(); return k8sClient.Update(ctx, fn) }
		}
		Expect(calls(update(func() { fn.Spec.TimeoutSeconds = 30 }))).To(BeZero())
		Expect(calls(update(func() { fn.Spec.Source.Inline.Files["handler.py"] += " " }))).To(BeEquivalentTo(1))
		Expect(calls(func() error {
			upload := function(fn.Namespace).Obj()
			upload.ObjectMeta = metav1.ObjectMeta{Name: "upload", Namespace: fn.Namespace}
			upload.Spec.Source = v1alpha1.FunctionSource{Upload: &v1alpha1.UploadSource{}}
			return k8sClient.Create(ctx, upload)
		})).To(BeZero())
		Expect(calls(func() error {
			Expect(k8sClient.Create(ctx, function(fn.Namespace).Runtime("perl").Obj())).NotTo(Succeed())
			return nil
		})).To(BeZero())
	})
})
