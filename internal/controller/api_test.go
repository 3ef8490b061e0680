// SPDX-License-Identifier: Apache-2.0

package controller

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

var _ = Describe("The API server", func() {
	inline := func() *testutil.FunctionWrapper { return testutil.MakeFunction("f", "default").File("handler.py", "") }
	with := func(change func(*v1alpha1.FunctionSpec)) *v1alpha1.Function {
		fn := inline().Obj()
		change(&fn.Spec)
		return fn
	}
	trigger := func(change func(*v1alpha1.TriggerSpec)) *v1alpha1.Trigger {
		t := &v1alpha1.Trigger{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "default"}}
		t.Spec = v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionReference{Name: "f"}, Type: v1alpha1.TriggerTypeHTTP}
		change(&t.Spec)
		return t
	}
	named := func(name string) *v1alpha1.Function {
		fn := inline().Obj()
		fn.Name = name
		return fn
	}

	DescribeTable("refuses", func(ctx SpecContext, obj client.Object, message string) {
		Expect(k8sClient.Create(ctx, obj, client.DryRunAll)).To(MatchError(ContainSubstring(message)))
	},
		Entry("replicas beside scaling", inline().Replicas(1).Scaling(0, 2).Obj(), "not both"),
		Entry("no source", testutil.MakeFunction("f", "default").Obj(), "spec.source: Required value"),
		Entry("two sources", with(func(s *v1alpha1.FunctionSpec) { s.Source.Upload = &v1alpha1.UploadSource{} }), "exactly one of inline, upload"),
		Entry("no runtime", inline().Runtime("").Obj(), "runtime is required"),
		Entry("reserved variable", inline().Env("SLESS_X", "1").Obj(), "reserved"),
		Entry("a variable twice", inline().Env("A", "1").Env("A", "2").Obj(), "Duplicate value"),
		Entry("timeout of 901 s", inline().Timeout(901).Obj(), "less than or equal to 900"),
		Entry("entrypoint without a function", inline().Entrypoint("handler").Obj(), "spec.entrypoint"),
		Entry("name of 53 characters", named("a23456789012345678901234567890123456789012345678901x3"), "52 characters"),
		Entry("name that is no label", named("a.b"), "DNS label"),
		Entry("minReplicas over maxReplicas", inline().Scaling(3, 2).Obj(), "may not be larger"),
		Entry("volume of nothing", with(func(s *v1alpha1.FunctionSpec) {
			s.Volumes = []v1alpha1.FunctionVolume{{Name: "v", MountPath: "/x"}}
		}), "exactly one of secret and configMap"),
		Entry("cron without a schedule", trigger(func(s *v1alpha1.TriggerSpec) { s.Type = v1alpha1.TriggerTypeCron }), "cron must be set"),
		Entry("http with a schedule", trigger(func(s *v1alpha1.TriggerSpec) {
			s.Cron = &v1alpha1.CronTrigger{Schedule: "* * * * *"}
		}), "cron must be set for type cron, and for no other"),
		// So hosts that mean the same are the same text, and the older Trigger has it.
		Entry("host in upper case", testutil.MakeTrigger("t", "default", "f").Host("Login.example.com").Obj(), "spec.http.host"),
		Entry("host with a dot at its end", testutil.MakeTrigger("t", "default", "f").Host("login.example.com.").Obj(), "spec.http.host"),
		Entry("host with a wildcard", testutil.MakeTrigger("t", "default", "f").Host("*.example.com").Obj(), "spec.http.host"),
		Entry("unknown type", trigger(func(s *v1alpha1.TriggerSpec) { s.Type = "kafka" }), "Unsupported value"),
	)

	It("takes and keeps what is right, and fills in the defaults", func(ctx SpecContext) {
		fn := inline().Obj()
		fn.Namespace = newNamespace(ctx)
		fn.Spec.Scaling = &v1alpha1.FunctionScaling{}
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		Expect(fn.Spec.TimeoutSeconds).To(BeEquivalentTo(60))
		Expect(*fn.Spec.Scaling.MaxReplicas).To(BeEquivalentTo(10))
		Expect(*fn.Spec.Scaling.IdleSeconds).To(BeEquivalentTo(300))
	})

	It("keeps any JSON value as an event, and lets runID only grow", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		for name, event := range map[string]string{
			"object": `{"a":{"b":[1,2.5,null]}}`, "list": `[1,"x"]`, "number": `42`, "text": `"hi"`, "bool": `false`,
		} {
			job := &v1alpha1.FunctionJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
			job.Spec.FunctionRef.Name = "f"
			job.Spec.Event = &runtime.RawExtension{Raw: []byte(event)}
			Expect(k8sClient.Create(ctx, job)).To(Succeed())
			Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			Expect(string(job.Spec.Event.Raw)).To(MatchJSON(event))
			job.Spec.RunID = 5
			Expect(k8sClient.Update(ctx, job)).To(Or(Succeed(), MatchError(ContainSubstring("modified"))))
		}
		job := &v1alpha1.FunctionJob{}
		Eventually(func() error {
			Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "text"}, job)).To(Succeed())
			job.Spec.RunID = 7
			return k8sClient.Update(ctx, job)
		}).Should(Succeed())
		Eventually(func() error {
			Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			job.Spec.RunID = 6
			return k8sClient.Update(ctx, job)
		}).Should(MatchError(ContainSubstring("may only grow")))
	})

	It("scales a Function through its scale subresource", func(ctx SpecContext) {
		fn := inline().Replicas(1).Obj()
		fn.Namespace, fn.Name = newNamespace(ctx), "scaled"
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
		Expect(k8sClient.SubResource("scale").Update(ctx, fn, client.WithSubResourceBody(scale))).To(Succeed())
		Expect(get(ctx, fn).Spec.Replicas).To(Equal(ptr.To[int32](3)))
	})
})

var _ = Describe("A Trigger and a FunctionJob", func() {
	It("say what they wait for", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		trigger := &v1alpha1.Trigger{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: namespace}}
		trigger.Spec = v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionReference{Name: "later"}, Type: v1alpha1.TriggerTypeHTTP}
		Expect(k8sClient.Create(ctx, trigger)).To(Succeed())
		reason := func() string {
			Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(trigger), trigger)).To(Succeed())
			for _, c := range trigger.Status.Conditions {
				if c.Type == v1alpha1.ConditionReady {
					return c.Reason
				}
			}
			return ""
		}
		Eventually(reason).Should(Equal(v1alpha1.ReasonFunctionNotFound))
		fn := testutil.MakeFunction("later", namespace).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		Eventually(reason).Should(Equal(v1alpha1.ReasonPending))
		rollOut(ctx, fn)
		Eventually(reason).Should(Equal(v1alpha1.ReasonReady))
		Expect(trigger.Status.URL).To(Equal("http://functions.test/fn/" + namespace + "/later"))

		job := &v1alpha1.FunctionJob{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: namespace}}
		job.Spec.FunctionRef.Name = "later"
		Expect(k8sClient.Create(ctx, job)).To(Succeed())
		phase := func() v1alpha1.FunctionJobPhase {
			Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			return job.Status.Phase
		}
		Eventually(phase).Should(Equal(v1alpha1.JobPhaseSkipped))
	})
})
