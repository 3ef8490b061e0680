// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/testutil"
)

// preflightsIn lists the preflights of a Function that are not on their way out.
func preflightsIn(ctx context.Context, fn *v1alpha1.Function) []batchv1.Job {
	GinkgoHelper()
	list := &batchv1.JobList{}
	Expect(k8sClient.List(ctx, list, client.InNamespace(naming.DeployNamespace(fn.Namespace)),
		preflightsOf(get(ctx, fn)))).To(Succeed())
	jobs := []batchv1.Job{}
	for _, job := range list.Items {
		if job.DeletionTimestamp.IsZero() {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// preflightOf waits for the one preflight of a Function.
func preflightOf(ctx context.Context, fn *v1alpha1.Function) *batchv1.Job {
	GinkgoHelper()
	var jobs []batchv1.Job
	Eventually(func() []batchv1.Job { jobs = preflightsIn(ctx, fn); return jobs }).Should(HaveLen(1))
	return &jobs[0]
}

// endPreflight plays the part of the Job controller and the kubelet. message is what the watchdog leaves behind.
func endPreflight(ctx context.Context, job *batchv1.Job, exit int32, message string) {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: job.Name + "-", Namespace: job.Namespace,
			Labels: job.Spec.Template.Labels, Annotations: job.Spec.Template.Annotations,
		},
		Spec: job.Spec.Template.Spec,
	}
	Expect(k8sClient.Create(ctx, pod)).To(Succeed())
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "function", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Message: message},
	}}}
	Expect(k8sClient.Status().Update(ctx, pod)).To(Succeed())
	now := new(metav1.Now())
	kinds := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if job.Status.StartTime == nil {
		job.Status.StartTime = now
	}
	job.Status.CompletionTime = now
	if exit != 0 {
		kinds = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
		job.Status.CompletionTime = nil
	}
	for _, kind := range kinds {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: *now, LastProbeTime: *now,
		})
	}
	Expect(k8sClient.Status().Update(ctx, job)).To(Succeed())
}

var _ = Describe("A Function without replicas", func() {
	image := func(d *appsv1.Deployment) string { return d.Spec.Template.Spec.Containers[0].Image }

	It("takes over only what was loaded once, and remembers that it was", func(ctx SpecContext) {
		fn := testutil.MakeFunction("idle", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		fn.Spec.Replicas = ptr.To[int32](0)
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())

		By("trying the first version before there is a Deployment")
		job := preflightOf(ctx, fn)
		readyIs(ctx, fn, "Unknown/Preflight")
		key := client.ObjectKey{Namespace: job.Namespace, Name: fn.Name}
		Expect(apierrors.IsNotFound(k8sClient.Get(ctx, key, &appsv1.Deployment{}))).To(BeTrue())
		endPreflight(ctx, job, 0, "")
		old := rollOut(ctx, fn)
		readyIs(ctx, fn, "False/ScaledToZero")
		Eventually(func() []batchv1.Job { return preflightsIn(ctx, fn) }).Should(BeEmpty())

		By("a version that cannot be loaded")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.py"] = "boom\n" })
		job = preflightOf(ctx, fn)
		endPreflight(ctx, job, 1, "HandlerLoadFailed: handler.py line 1: NameError: boom")
		readyIs(ctx, fn, "False/HandlerLoadFailed")
		current := get(ctx, fn)
		Expect(meta.FindStatusCondition(current.Status.Conditions, "Ready").Message).To(ContainSubstring("handler.py line 1"))
		Expect(meta.IsStatusConditionTrue(current.Status.Conditions, "Stalled")).To(BeTrue())
		Expect(deploymentOf(ctx, fn).Generation).To(Equal(old.Generation))

		By("looking at it once more, which does not try it again")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Build.TimeoutSeconds = 901 })
		readyIs(ctx, fn, "False/HandlerLoadFailed")
		Expect(preflightOf(ctx, fn).UID).To(Equal(job.UID))

		By("asking to try it again")
		change(ctx, fn, func(f *v1alpha1.Function) {
			metav1.SetMetaDataAnnotation(&f.ObjectMeta, v1alpha1.AnnotationReconcileAt, "now")
		})
		Eventually(func() bool { return preflightOf(ctx, fn).UID != job.UID }).Should(BeTrue())

		By("a version that can be loaded, which takes the place of the preflight that fails")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.py"] = pythonHandler + "# two\n" })
		Eventually(func() string { return preflightOf(ctx, fn).Name }).ShouldNot(Equal(job.Name))
		endPreflight(ctx, preflightOf(ctx, fn), 0, "")
		Eventually(func() string { return image(deploymentOf(ctx, fn)) }).Should(Equal(get(ctx, fn).Status.Image))
		rollOut(ctx, fn)
		readyIs(ctx, fn, "False/ScaledToZero")

		By("running it, which needs no preflight")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Replicas = ptr.To[int32](1) })
		Eventually(func() int32 { return *deploymentOf(ctx, fn).Spec.Replicas }).Should(BeEquivalentTo(1))
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		Expect(preflightsIn(ctx, fn)).To(BeEmpty())
	})

	It("stops the old version although the new one is not proven, and takes its preflight away when it is deleted",
		func(ctx SpecContext) {
			fn := testutil.MakeFunction("stopping", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
			Expect(k8sClient.Create(ctx, fn)).To(Succeed())
			old := rollOut(ctx, fn)
			readyIs(ctx, fn, "True/Ready")
			change(ctx, fn, func(f *v1alpha1.Function) {
				f.Spec.Source.Inline.Files["handler.py"] = "boom\n"
				f.Spec.Replicas = ptr.To[int32](0)
			})
			job := preflightOf(ctx, fn)
			Eventually(func() int32 { return *deploymentOf(ctx, fn).Spec.Replicas }).Should(BeZero())
			Expect(image(deploymentOf(ctx, fn))).To(Equal(image(old)))
			Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
			Eventually(func() bool {
				err := k8sClient.Get(ctx, client.ObjectKeyFromObject(job), job)
				return apierrors.IsNotFound(err) || (err == nil && job.DeletionTimestamp != nil)
			}).Should(BeTrue())
		})

	It("says so when it may have no pod for that", func(ctx SpecContext) {
		fn := testutil.MakeFunction("refused", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		fn.Spec.Replicas = ptr.To[int32](0)
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		job := preflightOf(ctx, fn)
		refuse(ctx, job, `Error creating: pods "preflight" is forbidden: exceeded quota: small`)
		readyIs(ctx, fn, "False/QuotaExceeded")
		endPreflight(ctx, job, 0, "")
		rollOut(ctx, fn)
		readyIs(ctx, fn, "False/ScaledToZero")
	})
})

// refuse plays the part of the Job controller whose pods the API server refuses.
func refuse(ctx context.Context, job *batchv1.Job, message string) {
	GinkgoHelper()
	refuseAt(ctx, job, message, metav1.Now(), metav1.Now())
}

// refuseAt does that for a Job that was started at another time.
func refuseAt(ctx context.Context, job *batchv1.Job, message string, started, now metav1.Time) {
	GinkgoHelper()
	Expect(k8sClient.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "refused-", Namespace: job.Namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID},
		Reason:         "FailedCreate", Message: message, Type: corev1.EventTypeWarning, FirstTimestamp: now, LastTimestamp: now,
	})).To(Succeed())
	Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
	job.Status.StartTime = &started
	Expect(k8sClient.Status().Update(ctx, job)).To(Succeed())
}
