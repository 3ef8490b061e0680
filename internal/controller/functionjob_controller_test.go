// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/testutil"
	"github.com/naeel/sless/runtimes"
)

func currentJob(ctx context.Context, fj *v1alpha1.FunctionJob) *v1alpha1.FunctionJob {
	GinkgoHelper()
	current := &v1alpha1.FunctionJob{}
	Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(fj), current)).To(Succeed())
	return current
}

// jobIs waits for phase, run and reason of the Complete condition, such as "Pending 1 Building".
func jobIs(ctx context.Context, fj *v1alpha1.FunctionJob, want string) {
	GinkgoHelper()
	Eventually(jobState(ctx, fj)).Should(Equal(want))
}

func jobState(ctx context.Context, fj *v1alpha1.FunctionJob) func() string {
	return func() string {
		current := &v1alpha1.FunctionJob{}
		if err := k8sClient.Get(ctx, client.ObjectKeyFromObject(fj), current); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(current.Status.Conditions, v1alpha1.ConditionComplete)
		if c == nil || c.ObservedGeneration != current.Generation {
			return "not yet"
		}
		return fmt.Sprintf("%s %d %s", current.Status.Phase, current.Status.RunID, c.Reason)
	}
}

func message(ctx context.Context, fj *v1alpha1.FunctionJob) func() string {
	return func() string { return currentJob(ctx, fj).Status.Message }
}

func changeJob(ctx context.Context, fj *v1alpha1.FunctionJob, mutate func(*v1alpha1.FunctionJob)) {
	GinkgoHelper()
	current := currentJob(ctx, fj)
	base := current.DeepCopy()
	mutate(current)
	Expect(k8sClient.Patch(ctx, current, client.MergeFrom(base))).To(Succeed())
}

// ofRuns selects what was made for a FunctionJob.
func ofRuns(fj *v1alpha1.FunctionJob) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(naming.DeployNamespace(fj.Namespace)), client.MatchingLabels(resources.RunOwnerLabels(string(fj.UID))),
	}
}

func count(ctx context.Context, fj *v1alpha1.FunctionJob, list client.ObjectList) func() int {
	return func() int {
		Expect(k8sClient.List(ctx, list, ofRuns(fj)...)).To(Succeed())
		return meta.LenList(list)
	}
}

// theJob returns the one Job of a FunctionJob.
func theJob(ctx context.Context, fj *v1alpha1.FunctionJob) *batchv1.Job {
	GinkgoHelper()
	jobs := &batchv1.JobList{}
	Eventually(count(ctx, fj, jobs)).Should(Equal(1))
	return &jobs.Items[0]
}

var runPods atomic.Int32

// runPod plays the part of the Job controller: it makes the pod of an attempt.
func runPod(ctx context.Context, job *batchv1.Job) *corev1.Pod {
	GinkgoHelper()
	// Of pods of the same second the name tells which came first. In a cluster a Job lets more time pass.
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%04d", job.Name, runPods.Add(1)), Namespace: job.Namespace,
			Labels: job.Spec.Template.Labels, Annotations: job.Spec.Template.Annotations,
		},
		Spec: job.Spec.Template.Spec,
	}
	Expect(k8sClient.Create(ctx, pod)).To(Succeed())
	return pod
}

// end plays the part of the kubelet: the attempt ends with a message.
func end(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, message string) {
	GinkgoHelper()
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:  resources.ContainerName,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}},
	}}
	Expect(k8sClient.Status().Update(ctx, pod)).To(Succeed())
}

// withoutPods is a cache that has not heard of any pod yet.
type withoutPods struct{ client.Client }

func (c withoutPods) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*corev1.PodList); ok {
		return nil
	}
	return c.Client.List(ctx, list, options...)
}

var _ = Describe("A FunctionJob", func() {
	It("keeps the result of a run whose Job ended before the cache has heard of its pod's end", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		fj := testutil.MakeFunctionJob("swift", fn.Namespace, fn.Name).Run(1).Obj()
		Expect(k8sClient.Create(ctx, fj)).To(Succeed())
		jobIs(ctx, fj, "Running 1 Running")
		job := theJob(ctx, fj)
		end(ctx, runPod(ctx, job), corev1.PodSucceeded, "7")
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		behind := &FunctionJobReconciler{Client: withoutPods{k8sClient}, APIReader: k8sClient}
		s := newFunctionJobScope(fj, platformS.clock.Now())
		s.runID = 1
		run, err := behind.observeRun(ctx, s, job)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(run.Result)).To(Equal("7"))
	})

	It("waits for its Function, runs once for each runID, and never twice", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: namespace}, StringData: map[string]string{"a": "1", "b": "2"}}
		Expect(k8sClient.Create(ctx, secret)).To(Succeed())
		fj := testutil.MakeFunctionJob("migrate", namespace, "cart").Event(`{"to":2}`).Obj()
		Expect(k8sClient.Create(ctx, fj)).To(Succeed())
		jobIs(ctx, fj, "Skipped 0 Skipped")
		Expect(currentJob(ctx, fj).Finalizers).To(BeEmpty())
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) { j.Spec.RunID = 1 })
		jobIs(ctx, fj, "Pending 1 FunctionNotFound")
		fn := testutil.MakeFunction("cart", namespace).File("handler.py", pythonHandler).Obj()
		fn.Spec.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "a",
		}}}}
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		jobIs(ctx, fj, "Pending 1 RollingOut")
		rollOut(ctx, fn)

		By("running")
		jobIs(ctx, fj, "Running 1 Running")
		job := theJob(ctx, fj)
		Expect(job.Spec.Template.Spec.Containers[0].Image).To(Equal(get(ctx, fn).Status.Image))
		current := currentJob(ctx, fj)
		Expect(current.Status.Logs).To(Equal(&v1alpha1.FunctionJobLogs{Namespace: job.Namespace, Job: job.Name, Container: "function"}))
		secrets := &corev1.SecretList{}
		Expect(count(ctx, fj, secrets)()).To(Equal(2))
		for _, s := range secrets.Items {
			Expect(s.Data).To(Or(Equal(map[string][]byte{"a": []byte("1")}), Equal(map[string][]byte{"event.json": []byte(`{"to":2}`)})))
		}

		By("succeeding")
		pod := runPod(ctx, job)
		end(ctx, pod, corev1.PodSucceeded, `{"done":true,"left":null}`)
		jobIs(ctx, fj, "Succeeded 1 Succeeded")
		current = currentJob(ctx, fj)
		Expect(string(current.Status.Result.Raw)).To(MatchJSON(`{"done":true,"left":null}`))
		Expect(current.Status.Logs.Pod).To(Equal(pod.Name))
		Eventually(count(ctx, fj, secrets)).Should(BeZero())
		Expect(count(ctx, fj, &batchv1.JobList{})()).To(Equal(1))

		By("losing its Job afterwards: nothing happens")
		Expect(k8sClient.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Expect(k8sClient.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) { j.Spec.Retries = 1 })
		jobIs(ctx, fj, "Succeeded 1 Succeeded")
		Consistently(count(ctx, fj, &batchv1.JobList{}), "1s").Should(BeZero())

		By("growing runID")
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) { j.Spec.RunID = 2 })
		jobIs(ctx, fj, "Running 2 Running")
		Expect(currentJob(ctx, fj).Status.Result).To(BeNil())
		second := theJob(ctx, fj)
		By("growing it once more during the run: the next one waits, and takes the place of the old one")
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) { j.Spec.RunID = 3 })
		Eventually(message(ctx, fj)).Should(Equal("run 3 waits until run 2 has ended"))
		first := runPod(ctx, second)
		end(ctx, first, corev1.PodFailed, "HandlerFailed: handler.py line 3: ValueError: no luck")
		Eventually(message(ctx, fj)).Should(ContainSubstring("run 3 waits"))
		end(ctx, runPod(ctx, second), corev1.PodSucceeded, `1`)
		jobIs(ctx, fj, "Running 3 Running")
		Eventually(func() string { return theJob(ctx, fj).Name }).Should(Equal(naming.Run("migrate", string(fj.UID), 3)))
	})

	It("ends whatever JSON the function returns", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		results := map[string]string{
			"too-large":  `{"factorial":1` + strings.Repeat("0", 309) + `}`,
			"exponent":   "[1e999]",
			"rounded":    "[18446744073709551616,1e-999]",
			"twice":      `{"a":1,"a":2}`,
			"surrogate":  `"\ud800"`,
			"bytes":      "\"\xff\"",
			"zero":       `{"\u0000":"\u0000"}`,
			"deep-list":  strings.Repeat("[", 2048) + strings.Repeat("]", 2048),
			"deep-value": strings.Repeat(`{"":`, 800) + "1" + strings.Repeat("}", 800),
		}
		for name, result := range results {
			By(name)
			fj := testutil.MakeFunctionJob(name, fn.Namespace, fn.Name).Run(1).Obj()
			Expect(k8sClient.Create(ctx, fj)).To(Succeed())
			end(ctx, runPod(ctx, theJob(ctx, fj)), corev1.PodSucceeded, result)
			jobIs(ctx, fj, "Succeeded 1 Succeeded")
			status := currentJob(ctx, fj).Status
			if name == "too-large" || name == "exponent" {
				Expect(status.ResultTruncated).To(Equal(new(true)))
				Expect(status.Message).To(HavePrefix("the result holds a number that Kubernetes cannot store"))
				Expect(status.Result).To(BeNil())
			} else {
				Expect(status.Result).NotTo(BeNil())
			}
		}
	})

	It("tells of attempts that fail, and of the last one's cause", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		fj := testutil.MakeFunctionJob("flaky", fn.Namespace, fn.Name).Run(1).Retries(1).Obj()
		Expect(k8sClient.Create(ctx, fj)).To(Succeed())
		job := theJob(ctx, fj)
		end(ctx, runPod(ctx, job), corev1.PodFailed, "HandlerFailed: handler.py line 3: ValueError: no luck")
		Eventually(message(ctx, fj)).Should(
			Equal("attempt 2: HandlerFailed: handler.py line 3: ValueError: no luck"))
		end(ctx, runPod(ctx, job), corev1.PodFailed, "HandlerTimeout: handler.handle did not end within 60s")
		jobIs(ctx, fj, "Failed 1 HandlerTimeout")
		current := currentJob(ctx, fj)
		Expect(current.Status.Attempts).To(BeEquivalentTo(2))
		Expect(meta.IsStatusConditionTrue(current.Status.Conditions, v1alpha1.ConditionFailed)).To(BeTrue())
		Expect(meta.IsStatusConditionTrue(current.Status.Conditions, v1alpha1.ConditionStalled)).To(BeTrue())
	})

	It("tells that the pod of another attempt is refused", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		fj := testutil.MakeFunctionJob("refused", fn.Namespace, fn.Name).Run(1).Retries(1).Obj()
		Expect(k8sClient.Create(ctx, fj)).To(Succeed())
		job := theJob(ctx, fj)
		pod := runPod(ctx, job)
		end(ctx, pod, corev1.PodFailed, "HandlerFailed: handler.py line 3: ValueError: no luck")
		Eventually(message(ctx, fj)).Should(HavePrefix("attempt 2: HandlerFailed: "))
		refuseAt(ctx, job, `Error creating: pods "x" is forbidden: exceeded quota: small`, pod.CreationTimestamp,
			metav1.NewTime(pod.CreationTimestamp.Add(10*time.Second)))
		Eventually(message(ctx, fj)).Should(Equal(`attempt 2: QuotaExceeded: pods "x" is forbidden: exceeded quota: small`))
		end(ctx, runPod(ctx, job), corev1.PodSucceeded, "1")
		jobIs(ctx, fj, "Succeeded 1 Succeeded")
	})

	It("goes on with a run that a manager began and could not note", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		fj := testutil.MakeFunctionJob("adopted", fn.Namespace, fn.Name).Obj()
		Expect(k8sClient.Create(ctx, fj)).To(Succeed())
		jobIs(ctx, fj, "Skipped 0 Skipped")
		asked := currentJob(ctx, fj)
		asked.Spec.RunID = 4
		job := resources.RunJob(asked, get(ctx, fn), resources.DeploymentOptions{Image: "image:test"})
		Expect(k8sClient.Create(ctx, job)).To(Succeed())
		end(ctx, runPod(ctx, job), corev1.PodSucceeded, `"before"`)
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) { j.Spec.RunID = 4 })
		jobIs(ctx, fj, "Succeeded 4 Succeeded")
		Expect(string(currentJob(ctx, fj).Status.Result.Raw)).To(Equal(`"before"`))
		Expect(theJob(ctx, fj).UID).To(Equal(job.UID))
	})

	It("goes on with a run that could not be noted before runID grew, and then begins the next one", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		overtakes := func(fj *v1alpha1.FunctionJob, pod *corev1.Pod) {
			GinkgoHelper()
			jobs := count(ctx, fj, &batchv1.JobList{})
			before := jobs()
			jobIs(ctx, fj, "Running 1 Running")
			Eventually(message(ctx, fj)).Should(Equal("run 2 waits until run 1 has ended"))
			Consistently(jobs, "1s").Should(Equal(before))
			Expect(jobState(ctx, fj)()).To(Equal("Running 1 Running"))
			end(ctx, pod, corev1.PodSucceeded, `"before"`)
			jobIs(ctx, fj, "Running 2 Running")
			Eventually(func() string { return theJob(ctx, fj).Name }).Should(Equal(naming.Run(fj.Name, string(fj.UID), 2)))
		}
		second := func(j *v1alpha1.FunctionJob) { j.Spec.RunID = 2 }
		declared := func(name string) (fj, asked *v1alpha1.FunctionJob) {
			GinkgoHelper()
			fj = testutil.MakeFunctionJob(name, fn.Namespace, fn.Name).Obj()
			fj.Finalizers = []string{v1alpha1.FinalizerFunctionJob}
			Expect(k8sClient.Create(ctx, fj)).To(Succeed())
			jobIs(ctx, fj, "Skipped 0 Skipped")
			asked = currentJob(ctx, fj)
			asked.Spec.RunID = 1
			return fj, asked
		}

		By("a manager that was killed before it wrote the status")
		fj, asked := declared("killed")
		job := resources.RunJob(asked, get(ctx, fn), resources.DeploymentOptions{Image: "image:test"})
		Expect(k8sClient.Create(ctx, job)).To(Succeed())
		Expect(k8sClient.Create(ctx, resources.RunEvent(asked, string(fn.UID)))).To(Succeed())
		pod := runPod(ctx, job)
		changeJob(ctx, fj, second)
		overtakes(fj, pod)

		By("that, and its Job deleted, while the pod works")
		fj, asked = declared("deleted")
		job = resources.RunJob(asked, get(ctx, fn), resources.DeploymentOptions{Image: "image:test"})
		Expect(k8sClient.Create(ctx, resources.RunEvent(asked, string(fn.UID)))).To(Succeed())
		pod = runPod(ctx, job)
		changeJob(ctx, fj, second)
		overtakes(fj, pod)

		By("a change of the FunctionJob between the last look at it and the write of the status")
		catalogue, err := runtimes.Load()
		Expect(err).NotTo(HaveOccurred())
		manager := &FunctionJobReconciler{Client: k8sClient, APIReader: k8sClient, Config: platformS.config, Catalogue: catalogue}
		fj, asked = declared("changed")
		s := newFunctionJobScope(asked, platformS.clock.Now())
		Expect(manager.startRun(ctx, s)).To(Succeed())
		pod = runPod(ctx, theJob(ctx, fj))
		changeJob(ctx, fj, second)
		Expect(manager.finish(ctx, s, nil)).To(Equal(ctrl.Result{RequeueAfter: conflictDelay}))
		overtakes(fj, pod)

		By("a manager that was killed before it made the event, so that the function was never started")
		fj, asked = declared("waiting")
		Expect(k8sClient.Create(ctx, resources.RunJob(asked, get(ctx, fn), resources.DeploymentOptions{Image: "image:test"}))).To(Succeed())
		changeJob(ctx, fj, second)
		jobIs(ctx, fj, "Running 2 Running")
		Eventually(func() string { return theJob(ctx, fj).Name }).Should(Equal(naming.Run(fj.Name, string(fj.UID), 2)))
	})

	It("does not begin again what a manager began and could not note, when its Job was deleted meanwhile", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		fj := testutil.MakeFunctionJob("lost", fn.Namespace, fn.Name).Obj()
		Expect(k8sClient.Create(ctx, fj)).To(Succeed())
		jobIs(ctx, fj, "Skipped 0 Skipped")
		asked := currentJob(ctx, fj)
		asked.Spec.RunID = 4
		Expect(k8sClient.Create(ctx, resources.RunEvent(asked, string(fn.UID)))).To(Succeed())
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) { j.Spec.RunID = 4 })
		jobIs(ctx, fj, "Failed 4 RunDeleted")
		Eventually(count(ctx, fj, &corev1.SecretList{})).Should(BeZero())
		Consistently(count(ctx, fj, &batchv1.JobList{}), "1s").Should(BeZero())

		By("beginning a later one, whose manager died before it made the event")
		asked.Spec.RunID = 5
		job := resources.RunJob(asked, get(ctx, fn), resources.DeploymentOptions{Image: "image:test"})
		Expect(k8sClient.Create(ctx, job)).To(Succeed())
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) { j.Spec.RunID = 5 })
		jobIs(ctx, fj, "Running 5 Running")
		Expect(theJob(ctx, fj).UID).To(Equal(job.UID))
		event := &corev1.Secret{}
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(resources.RunEvent(asked, "")), event)).To(Succeed())
	})

	It("refuses to take over a Job that is not its own, and a name that derived names cannot hold", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		fj := testutil.MakeFunctionJob("taken", fn.Namespace, fn.Name).Obj()
		Expect(k8sClient.Create(ctx, fj)).To(Succeed())
		other := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: naming.Run(fj.Name, string(fj.UID), 1), Namespace: naming.DeployNamespace(fj.Namespace)},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			}}},
		}
		other.Spec.Suspend = new(true)
		Expect(k8sClient.Create(ctx, other)).To(Succeed())
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) { j.Spec.RunID = 1 })
		jobIs(ctx, fj, "Pending 1 NameConflict")

		dotted := testutil.MakeFunctionJob("a.b", fn.Namespace, fn.Name).Run(1).Obj()
		Expect(k8sClient.Create(ctx, dotted)).To(Succeed())
		jobIs(ctx, dotted, "Pending 1 InvalidSpec")
	})

	It("is cancelled by deletion, and goes when its pod has ended", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		fj := testutil.MakeFunctionJob("cancelled", fn.Namespace, fn.Name).Run(1).Obj()
		Expect(k8sClient.Create(ctx, fj)).To(Succeed())
		jobIs(ctx, fj, "Running 1 Running")
		pod := runPod(ctx, theJob(ctx, fj))
		Expect(k8sClient.Delete(ctx, fj)).To(Succeed())
		for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.SecretList{}} {
			Eventually(count(ctx, fj, list)).Should(BeZero())
		}
		Expect(currentJob(ctx, fj).DeletionTimestamp).NotTo(BeNil())
		Expect(k8sClient.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(fj), fj))
		}).Should(BeTrue())
	})

	It("is stopped with its Function, and fails when its Job is deleted", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		stopped := testutil.MakeFunctionJob("stopped", fn.Namespace, fn.Name).Run(1).Obj()
		lost := testutil.MakeFunctionJob("lost", fn.Namespace, fn.Name).Run(1).Obj()
		for _, fj := range []*v1alpha1.FunctionJob{stopped, lost} {
			Expect(k8sClient.Create(ctx, fj)).To(Succeed())
			jobIs(ctx, fj, "Running 1 Running")
		}
		Expect(k8sClient.Delete(ctx, theJob(ctx, lost), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		jobIs(ctx, lost, "Failed 1 RunDeleted")
		Consistently(count(ctx, lost, &batchv1.JobList{}), "1s").Should(BeZero())
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
		jobIs(ctx, stopped, "Failed 1 FunctionNotFound")
		Eventually(count(ctx, stopped, &batchv1.JobList{})).Should(BeZero())
		Expect(currentJob(ctx, stopped).Status.Logs).To(BeNil())
		Expect(jobState(ctx, lost)()).To(Equal("Failed 1 RunDeleted"))
	})

	It("lets no run begin beside the pod of one whose Job was deleted", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		fj := testutil.MakeFunctionJob("beside", fn.Namespace, fn.Name).Run(1).Obj()
		Expect(k8sClient.Create(ctx, fj)).To(Succeed())
		jobIs(ctx, fj, "Running 1 Running")
		pod := runPod(ctx, theJob(ctx, fj))
		Expect(k8sClient.Delete(ctx, theJob(ctx, fj), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Eventually(message(ctx, fj)).Should(
			Equal("RunDeleted: the Job of this run was deleted, and its pod " + pod.Name + " has not ended yet"))
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) { j.Spec.RunID = 2 })
		Eventually(message(ctx, fj)).Should(Equal("run 2 waits until run 1 has ended"))
		Consistently(count(ctx, fj, &batchv1.JobList{}), "1s").Should(BeZero())
		Expect(jobState(ctx, fj)()).To(Equal("Running 1 Running"))
		Expect(k8sClient.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		jobIs(ctx, fj, "Running 2 Running")
	})

	It("that is stopped with its Function ends when its pod does, also when there is a Function of that name again", func(ctx SpecContext) {
		fn := readyFunction(ctx, newNamespace(ctx))
		stopped := testutil.MakeFunctionJob("stopped", fn.Namespace, fn.Name).Run(1).Obj()
		late := testutil.MakeFunctionJob("late", fn.Namespace, fn.Name).Run(1).Obj()
		pods := map[string]*corev1.Pod{}
		for _, fj := range []*v1alpha1.FunctionJob{stopped, late} {
			Expect(k8sClient.Create(ctx, fj)).To(Succeed())
			jobIs(ctx, fj, "Running 1 Running")
			pods[fj.Name] = runPod(ctx, theJob(ctx, fj))
		}
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
		const told = "FunctionNotFound: Function cart was deleted while the run went on, so the run was stopped"
		for _, fj := range []*v1alpha1.FunctionJob{stopped, late} {
			Eventually(message(ctx, fj)).Should(Equal(told + "; its pod has not ended yet"))
			Expect(count(ctx, fj, &batchv1.JobList{})()).To(BeZero())
		}
		Eventually(func() bool { return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(fn), fn)) }).Should(BeTrue())
		again := testutil.MakeFunction(fn.Name, fn.Namespace).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, again)).To(Succeed())
		Expect(k8sClient.Delete(ctx, pods["stopped"], client.GracePeriodSeconds(0))).To(Succeed())
		jobIs(ctx, stopped, "Failed 1 FunctionNotFound")
		Expect(message(ctx, stopped)()).To(Equal(told))
		end(ctx, pods["late"], corev1.PodSucceeded, "1")
		jobIs(ctx, late, "Succeeded 1 Succeeded")
	})

	It("runs a Function that is switched off, and is deleted when its time is over", func(ctx SpecContext) {
		fn := testutil.MakeFunction("off", newNamespace(ctx)).File("handler.py", pythonHandler).Replicas(0).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		endPreflight(ctx, preflightOf(ctx, fn), 0, "")
		rollOut(ctx, fn)
		readyIs(ctx, fn, "False/ScaledToZero")
		fj := testutil.MakeFunctionJob("short", fn.Namespace, fn.Name).Run(1).TTL(0).Obj()
		fj.Spec.Event = &runtime.RawExtension{Raw: []byte("1")}
		Expect(k8sClient.Create(ctx, fj)).To(Succeed())
		end(ctx, runPod(ctx, theJob(ctx, fj)), corev1.PodSucceeded, "1")
		Eventually(count(ctx, fj, &batchv1.JobList{})).Should(BeZero())
		Eventually(func() bool {
			return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(fj), fj))
		}).Should(BeTrue())
	})
})
