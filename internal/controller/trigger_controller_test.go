// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/testutil"
)

// triggerIs waits until the Ready condition of a Trigger is "Status/Reason" for the current spec.
func triggerIs(ctx context.Context, t *v1alpha1.Trigger, want string) {
	GinkgoHelper()
	Eventually(func() string {
		current := &v1alpha1.Trigger{}
		if err := k8sClient.Get(ctx, client.ObjectKeyFromObject(t), current); err != nil {
			return err.Error()
		}
		c := triggerCondition(current, v1alpha1.ConditionReady)
		if c.ObservedGeneration != current.Generation {
			return "not yet"
		}
		return string(c.Status) + "/" + c.Reason
	}).Should(Equal(want))
}

func getTrigger(ctx context.Context, t *v1alpha1.Trigger) *v1alpha1.Trigger {
	GinkgoHelper()
	current := &v1alpha1.Trigger{}
	Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(t), current)).To(Succeed())
	return current
}

// changeTrigger is a user's next apply.
func changeTrigger(ctx context.Context, t *v1alpha1.Trigger, mutate func(*v1alpha1.TriggerSpec)) {
	GinkgoHelper()
	current := getTrigger(ctx, t)
	base := current.DeepCopy()
	mutate(&current.Spec)
	Expect(k8sClient.Patch(ctx, current, client.MergeFrom(base))).To(Succeed())
}

func enable(on bool) func(*v1alpha1.TriggerSpec) {
	return func(s *v1alpha1.TriggerSpec) { s.Enabled = new(on) }
}

func deleteTrigger(ctx context.Context, t *v1alpha1.Trigger) {
	GinkgoHelper()
	Expect(k8sClient.Delete(ctx, t.DeepCopy())).To(Succeed())
	Eventually(func() bool {
		return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(t), &v1alpha1.Trigger{}))
	}).Should(BeTrue())
}

// readyFunction creates a Function and plays the kubelet's part until it is ready.
func readyFunction(ctx context.Context, namespace string) *v1alpha1.Function {
	GinkgoHelper()
	fn := testutil.MakeFunction("cart", namespace).File("handler.py", pythonHandler).Obj()
	Expect(k8sClient.Create(ctx, fn)).To(Succeed())
	rollOut(ctx, fn)
	readyIs(ctx, fn, "True/Ready")
	return fn
}

// cronJobOf reads the CronJob of a Trigger, or nil.
func cronJobOf(ctx context.Context, t *v1alpha1.Trigger) *batchv1.CronJob {
	GinkgoHelper()
	job := &batchv1.CronJob{}
	key := client.ObjectKey{Namespace: naming.DeployNamespace(t.Namespace), Name: naming.CronJob(t.Name)}
	err := k8sClient.Get(ctx, key, job)
	if apierrors.IsNotFound(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return job
}

// suspended is "yes", "no" or "none" for a CronJob.
func suspended(ctx context.Context, t *v1alpha1.Trigger) func() string {
	return func() string {
		switch job := cronJobOf(ctx, t); {
		case job == nil:
			return "none"
		case ptr.Deref(job.Spec.Suspend, false):
			return "yes"
		default:
			return "no"
		}
	}
}

// runOf plays the part of the CronJob and the Job controller: a run that ended.
func runOf(ctx context.Context, t *v1alpha1.Trigger, name, message string) {
	GinkgoHelper()
	template := cronJobOf(ctx, t).Spec.JobTemplate
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: naming.DeployNamespace(t.Namespace), Labels: template.Labels, Annotations: template.Annotations,
		},
		Spec: template.Spec,
	}
	Expect(k8sClient.Create(ctx, job)).To(Succeed())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: name + "-", Namespace: job.Namespace, Labels: maps.Clone(template.Spec.Template.Labels),
			Annotations: template.Annotations,
		},
		Spec: template.Spec.Template.Spec,
	}
	pod.Labels[batchv1.JobNameLabel] = name
	Expect(k8sClient.Create(ctx, pod)).To(Succeed())
	if message == "" {
		endRun(ctx, job, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
		return
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "invoke", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message},
	}}}
	Expect(k8sClient.Status().Update(ctx, pod)).To(Succeed())
	endRun(ctx, job, batchv1.JobFailureTarget, batchv1.JobFailed)
}

func endRun(ctx context.Context, job *batchv1.Job, kinds ...batchv1.JobConditionType) {
	GinkgoHelper()
	now := metav1.Now()
	job.Status.StartTime = &now
	for _, kind := range kinds {
		if kind == batchv1.JobComplete {
			job.Status.CompletionTime = &now
		}
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	}
	Expect(k8sClient.Status().Update(ctx, job)).To(Succeed())
}

func ensureGatewayNamespace(ctx context.Context) {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: platformS.config.Gateway.Namespace}}
	Expect(client.IgnoreAlreadyExists(k8sClient.Create(ctx, namespace))).To(Succeed())
}

var _ = Describe("A cron Trigger", Serial, func() {
	It("waits for its Function, fires, tells of its runs, and leaves nothing", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		t := testutil.MakeTrigger("nightly", namespace, "cart").Cron("0 3 * * *", "Europe/Berlin").Event(`{"name":"night"}`).Obj()
		Expect(k8sClient.Create(ctx, t)).To(Succeed())
		triggerIs(ctx, t, "False/FunctionNotFound")
		Expect(suspended(ctx, t)()).To(Equal("none"))

		fn := readyFunction(ctx, namespace)
		triggerIs(ctx, t, "True/Ready")
		job := cronJobOf(ctx, t)
		Expect(*job.Spec.TimeZone).To(Equal("Europe/Berlin"))
		Expect(suspended(ctx, t)()).To(Equal("no"))
		container := job.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
		Expect(container.Args).To(ContainElement("--url=http://sless-gateway.sless-system.svc:80/fn/" + namespace + "/cart"))
		event := &corev1.ConfigMap{}
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), event)).To(Succeed())
		Expect(event.Data).To(HaveKeyWithValue("event.json", `{"name":"night"}`))
		status := getTrigger(ctx, t).Status
		Expect(*status.Active).To(BeTrue())
		Expect(status.NextScheduleTime.Time).To(BeTemporally(">", time.Now()))
		Expect(status.NextScheduleTime.Time.In(mustZone("Europe/Berlin")).Hour()).To(Equal(3))

		By("firing")
		setStatus(ctx, job, func() { job.Status.LastScheduleTime = new(metav1.NewTime(time.Now().Truncate(time.Second))) })
		Eventually(func() *metav1.Time { return getTrigger(ctx, t).Status.LastScheduleTime }).ShouldNot(BeNil())
		runOf(ctx, t, "nightly-1", "CallFailed: the answer was 500: no")
		lastRun := func() string {
			c := triggerCondition(getTrigger(ctx, t), v1alpha1.ConditionLastRunSucceeded)
			return string(c.Status) + "/" + c.Reason + " " + c.Message
		}
		Eventually(lastRun).Should(Equal("False/LastRunFailed run nightly-1: CallFailed: the answer was 500: no"))
		triggerIs(ctx, t, "True/Ready")
		Eventually(func() []string { return eventsOf(ctx, t) }).Should(ContainElement("Warning LastRunFailed"))
		behind := &TriggerReconciler{Client: withoutPods{k8sClient}, APIReader: k8sClient}
		s := &triggerScope{trigger: t}
		Expect(behind.observeRuns(ctx, s)).To(Succeed())
		Expect(s.run.Message).To(Equal("CallFailed: the answer was 500: no"), "also while the cache has not heard of the pod")
		runOf(ctx, t, "nightly-2", "")
		Eventually(lastRun).Should(HavePrefix("True/Succeeded"))

		By("looking again: nothing is written")
		asked := getTrigger(ctx, t)
		version := cronJobOf(ctx, t).ResourceVersion
		lookAgain(ctx, TriggerController, asked)
		Consistently(func() string { return getTrigger(ctx, t).ResourceVersion }, "1s").Should(Equal(asked.ResourceVersion))
		Expect(cronJobOf(ctx, t).ResourceVersion).To(Equal(version))

		By("changing the schedule and the event")
		changeTrigger(ctx, t, func(s *v1alpha1.TriggerSpec) {
			s.Cron.Schedule = "0 4 * * *"
			s.Cron.Event = &runtime.RawExtension{Raw: []byte(`"other"`)}
		})
		Eventually(func() string { return cronJobOf(ctx, t).Spec.Schedule }).Should(Equal("0 4 * * *"))
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), event)).To(Succeed())
		Expect(event.Data).To(HaveKeyWithValue("event.json", `"other"`))
		Expect(cronJobOf(ctx, t).Spec.StartingDeadlineSeconds).NotTo(BeNil(), "what was due before the change is not made up for")
		changeTrigger(ctx, t, func(s *v1alpha1.TriggerSpec) { s.Cron.Event = nil })
		Eventually(func() bool { return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), event)) }).Should(BeTrue())

		By("deleting the CronJob by hand: it comes back")
		Expect(k8sClient.Delete(ctx, cronJobOf(ctx, t))).To(Succeed())
		Eventually(suspended(ctx, t)).Should(Equal("no"))

		By("deleting the Function: nothing fires")
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
		triggerIs(ctx, t, "False/FunctionNotFound")
		Eventually(suspended(ctx, t)).Should(Equal("yes"))

		By("deleting the Trigger")
		deleteTrigger(ctx, t)
		Expect(suspended(ctx, t)()).To(Equal("none"))
		jobs := &batchv1.JobList{}
		Expect(k8sClient.List(ctx, jobs, client.InNamespace(job.Namespace))).To(Succeed())
		for i := range jobs.Items {
			Expect(jobs.Items[i].DeletionTimestamp).NotTo(BeNil(), "%s is left", jobs.Items[i].Name)
		}
		Expect(k8sClient.Get(ctx, client.ObjectKey{Name: job.Namespace}, &corev1.Namespace{})).To(Succeed())
	})

	It("freezes its Function, and thaws it without a build while the registry is down", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		fn := readyFunction(ctx, namespace)
		image := get(ctx, fn).Status.Image
		t := testutil.MakeTrigger("tick", namespace, "cart").Cron("0 * * * *", "").Obj()
		Expect(k8sClient.Create(ctx, t)).To(Succeed())
		triggerIs(ctx, t, "True/Ready")
		job := cronJobOf(ctx, t)
		setStatus(ctx, job, func() {
			job.Status.LastScheduleTime = new(metav1.NewTime(time.Now().Add(-5 * time.Hour).Truncate(time.Second)))
		})

		platformS.registryOutage.set(refusing)
		platformS.storeOutage.set(refusing)
		DeferCleanup(func() { platformS.registryOutage.set(none); platformS.storeOutage.set(none) })
		changeTrigger(ctx, t, enable(false))
		triggerIs(ctx, t, "False/Disabled")
		readyIs(ctx, fn, "False/Disabled")
		Expect(get(ctx, fn).Status.Phase).To(Equal(v1alpha1.PhaseDisabled))
		Expect(*getTrigger(ctx, t).Status.Active).To(BeFalse())
		Expect(getTrigger(ctx, t).Status.NextScheduleTime).To(BeNil())
		Eventually(func() int32 { return *deploymentOf(ctx, fn).Spec.Replicas }).Should(BeZero())
		Expect(suspended(ctx, t)()).To(Equal("yes"))

		By("breaking the code while it is off: it stays off")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.py"] += "# new\n" })
		readyIs(ctx, fn, "False/Disabled")
		Expect(meta.FindStatusCondition(get(ctx, fn).Status.Conditions, v1alpha1.ConditionReady).Message).To(ContainSubstring("besides"))
		By("running it once meanwhile: not with the code from before")
		migrate := testutil.MakeFunctionJob("migrate", namespace, "cart").Run(1).Obj()
		Expect(k8sClient.Create(ctx, migrate)).To(Succeed())
		jobIs(ctx, migrate, "Pending 1 StoreUnavailable")

		By("switching it on: the old version serves")
		changeTrigger(ctx, t, enable(true))
		Eventually(func() int32 { return *deploymentOf(ctx, fn).Spec.Replicas }).Should(BeEquivalentTo(1))
		Eventually(suspended(ctx, t)).Should(Equal("no"))
		Expect(*cronJobOf(ctx, t).Spec.StartingDeadlineSeconds).To(BeNumerically("<=", 3600), "no tick of the time off is made up for")
		Expect(get(ctx, fn).Status.Image).To(Equal(image))
		platformS.registryOutage.set(none)
		platformS.storeOutage.set(none)
		rollOut(ctx, fn)
		Eventually(func() bool {
			rollOut(ctx, fn)
			return meta.IsStatusConditionTrue(get(ctx, fn).Status.Conditions, "Ready")
		}).Should(BeTrue())
	})

	It("refuses a CronJob of its name that is not its own, and a schedule that is none", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		readyFunction(ctx, namespace)
		t := testutil.MakeTrigger("tick", namespace, "cart").Cron("0 * * * *", "").Obj()
		foreign := &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{Name: naming.CronJob(t.Name), Namespace: naming.DeployNamespace(namespace)},
			Spec: batchv1.CronJobSpec{Schedule: "@yearly", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
				}},
			}}},
		}
		Expect(k8sClient.Create(ctx, foreign)).To(Succeed())
		Expect(k8sClient.Create(ctx, t)).To(Succeed())
		triggerIs(ctx, t, "False/NameConflict")
		deleteTrigger(ctx, t)
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
		Expect(foreign.Spec.Schedule).To(Equal("@yearly"))
		Expect(k8sClient.Delete(ctx, foreign)).To(Succeed())

		t = testutil.MakeTrigger("tick", namespace, "cart").Cron("0 * * * *", "").Obj()
		Expect(k8sClient.Create(ctx, t)).To(Succeed())
		triggerIs(ctx, t, "True/Ready")
		changeTrigger(ctx, t, func(s *v1alpha1.TriggerSpec) { s.Cron.Schedule = "99 * * * *" })
		triggerIs(ctx, t, "False/ScheduleInvalid")
		Expect(suspended(ctx, t)()).To(Equal("yes"))
		changeTrigger(ctx, t, func(s *v1alpha1.TriggerSpec) { s.Cron.Schedule = "9 * * * *" })
		triggerIs(ctx, t, "True/Ready")
		Eventually(suspended(ctx, t)).Should(Equal("no"))
		deleteTrigger(ctx, t)
	})
})

var _ = Describe("A Function with several Triggers", func() {
	It("is frozen by the last one that is switched off, and thawed when that is deleted or turned to another Function", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		fn := testutil.MakeFunction("cart", namespace).File("handler.py", pythonHandler).Replicas(3).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		a := testutil.MakeTrigger("a", namespace, "cart").Obj()
		b := testutil.MakeTrigger("b", namespace, "cart").Obj()
		a.Spec.Enabled = new(false)
		Expect(k8sClient.Create(ctx, b)).To(Succeed())
		Expect(k8sClient.Create(ctx, a)).To(Succeed())
		triggerIs(ctx, a, "False/Disabled")
		triggerIs(ctx, b, "True/Ready")
		Expect(getTrigger(ctx, b).Status.URL).To(Equal("http://functions.test/fn/" + namespace + "/cart"))
		readyIs(ctx, fn, "True/Ready")
		Expect(getTrigger(ctx, b).Finalizers).To(BeEmpty(), "a Trigger without objects of its own needs no finalizer")

		replicas := func() int32 { return *deploymentOf(ctx, fn).Spec.Replicas }
		changeTrigger(ctx, b, enable(false))
		readyIs(ctx, fn, "False/Disabled")
		Eventually(replicas).Should(BeZero())
		changeTrigger(ctx, b, func(s *v1alpha1.TriggerSpec) { s.FunctionRef.Name = "other" })
		readyIs(ctx, fn, "False/Disabled")
		deleteTrigger(ctx, a)
		Eventually(replicas).Should(BeEquivalentTo(3))
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		changeTrigger(ctx, b, func(s *v1alpha1.TriggerSpec) { s.FunctionRef.Name = "cart" })
		readyIs(ctx, fn, "False/Disabled")
		deleteTrigger(ctx, b)
		Eventually(replicas).Should(BeEquivalentTo(3))
	})
})

var _ = Describe("An http Trigger with a host", func() {
	ingresses := func(ctx context.Context, t *v1alpha1.Trigger) func() int {
		return func() int {
			list := &networkingv1.IngressList{}
			Expect(k8sClient.List(ctx, list, client.MatchingLabels{v1alpha1.LabelOwnerUID: string(t.UID)})).To(Succeed())
			return len(list.Items)
		}
	}
	It("gets an Ingress, loses against an older one, and takes over when that goes", func(ctx SpecContext) {
		ensureGatewayNamespace(ctx)
		first, second := newNamespace(ctx), newNamespace(ctx)
		readyFunction(ctx, first)
		readyFunction(ctx, second)
		const host = "takes-over.example.com"
		older := testutil.MakeTrigger("web", first, "cart").Host(host).Obj()
		Expect(k8sClient.Create(ctx, older)).To(Succeed())
		triggerIs(ctx, older, "True/Ready")
		Expect(getTrigger(ctx, older).Status.URL).To(Equal("http://" + host))
		ingress := &networkingv1.Ingress{}
		key := client.ObjectKey{Namespace: "sless-system", Name: naming.HostRoute(first, "web")}
		Expect(k8sClient.Get(ctx, key, ingress)).To(Succeed())
		Expect(ingress.Spec.Rules[0].Host).To(Equal(host))

		By("claiming it again")
		time.Sleep(time.Until(getTrigger(ctx, older).CreationTimestamp.Add(1100 * time.Millisecond))) // ages are whole seconds
		younger := testutil.MakeTrigger("a", second, "cart").Host(host).Obj()
		Expect(k8sClient.Create(ctx, younger)).To(Succeed())
		triggerIs(ctx, younger, "False/HostConflict")
		Expect(ingresses(ctx, younger)()).To(BeZero())
		status := getTrigger(ctx, younger).Status
		Expect(status.Host + status.URL).To(BeEmpty())
		Expect(triggerCondition(getTrigger(ctx, younger), v1alpha1.ConditionReady).Message).NotTo(ContainSubstring(first))

		By("switching the older one off: it keeps the host")
		changeTrigger(ctx, older, enable(false))
		triggerIs(ctx, older, "False/Disabled")
		Expect(getTrigger(ctx, older).Status.Host).To(Equal(host))
		Expect(ingresses(ctx, older)()).To(Equal(1))

		By("deleting an Ingress by hand: it comes back")
		Expect(k8sClient.Delete(ctx, ingress)).To(Succeed())
		Eventually(ingresses(ctx, older)).Should(Equal(1))

		By("deleting the older one")
		deleteTrigger(ctx, older)
		triggerIs(ctx, younger, "True/Ready")
		Eventually(ingresses(ctx, younger)).Should(Equal(1))
		Expect(ingresses(ctx, older)()).To(BeZero())

		By("taking the host of the gateway itself, and then none")
		changeTrigger(ctx, younger, func(s *v1alpha1.TriggerSpec) { s.HTTP.Host = "functions.test" })
		triggerIs(ctx, younger, "False/HostConflict")
		Eventually(ingresses(ctx, younger)).Should(BeZero())
		changeTrigger(ctx, younger, func(s *v1alpha1.TriggerSpec) { s.HTTP = nil })
		triggerIs(ctx, younger, "True/Ready")
		Expect(getTrigger(ctx, younger).Status.URL).To(HaveSuffix("/fn/" + second + "/cart"))
		deleteTrigger(ctx, younger)
	})

	It("does not touch an Ingress of its name that is not its own", func(ctx SpecContext) {
		ensureGatewayNamespace(ctx)
		namespace := newNamespace(ctx)
		foreign := &networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Name: naming.HostRoute(namespace, "web"), Namespace: "sless-system"},
			Spec:       networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "x.example.com"}}},
		}
		Expect(k8sClient.Create(ctx, foreign)).To(Succeed())
		t := testutil.MakeTrigger("web", namespace, "cart").Host("foreign.example.com").Obj()
		Expect(k8sClient.Create(ctx, t)).To(Succeed())
		triggerIs(ctx, t, "False/NameConflict")
		deleteTrigger(ctx, t)
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
		Expect(foreign.Spec.Rules[0].Host).To(Equal("x.example.com"))
		Expect(k8sClient.Delete(ctx, foreign)).To(Succeed())
	})
})

func eventsOf(ctx context.Context, obj client.Object) []string {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(k8sClient.List(ctx, list, client.InNamespace(obj.GetNamespace()))).To(Succeed())
	var found []string
	for i := range list.Items {
		if list.Items[i].Regarding.Name == obj.GetName() {
			found = append(found, list.Items[i].Type+" "+list.Items[i].Reason)
		}
	}
	return found
}

func mustZone(name string) *time.Location {
	GinkgoHelper()
	zone, err := time.LoadLocation(name)
	Expect(err).NotTo(HaveOccurred())
	return zone
}
