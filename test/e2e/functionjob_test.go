//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// worker is a function that does what its event asks for.
const worker = `import os, time

def handle(event, context):
    how = event.get("how") if isinstance(event, dict) else None
    print("attempt begins", flush=True)
    if how == "raise":
        raise ValueError("no luck")
    if how == "hang":
        time.sleep(3600)
    if how == "crash":
        os._exit(7)
    if how == "eat":
        hog = []
        while True:
            hog.append(bytearray(16 << 20))
    if how == "print":
        for _ in range(64 * 1024):
            print("x" * 63)
    if how == "large":
        return {"text": "y" * 5000}
    if how == "object":
        return {1, 2}
    if how == "none":
        return None
    if how == "size":
        return len(event["data"])
    return {"migrated": event, "left": None, "who": os.environ.get("WHO")}
`

func jobOf(fn *v1alpha1.Function, name, event string) *v1alpha1.FunctionJob {
	return &v1alpha1.FunctionJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: fn.Namespace},
		Spec: v1alpha1.FunctionJobSpec{
			FunctionRef: v1alpha1.FunctionReference{Name: fn.Name}, RunID: 1, Event: &runtime.RawExtension{Raw: []byte(event)},
		},
	}
}

func currentJob(ctx context.Context, fj *v1alpha1.FunctionJob) *v1alpha1.FunctionJob {
	GinkgoHelper()
	now := &v1alpha1.FunctionJob{}
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(fj), now)).To(Succeed())
	return now
}

// phase returns phase and run, such as "Succeeded 1", once they speak of the current spec.
func phase(ctx context.Context, fj *v1alpha1.FunctionJob) func() string {
	return func() string {
		now := currentJob(ctx, fj)
		if now.Status.ObservedGeneration != now.Generation {
			return "not looked at yet"
		}
		return fmt.Sprintf("%s %d", now.Status.Phase, now.Status.RunID)
	}
}

func reasonOfFailure(fj *v1alpha1.FunctionJob) string {
	c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionFailed)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Reason
}

func changeJob(ctx context.Context, fj *v1alpha1.FunctionJob, mutate func(*v1alpha1.FunctionJob)) {
	GinkgoHelper()
	now := currentJob(ctx, fj)
	base := now.DeepCopy()
	mutate(now)
	Expect(k8s.Patch(ctx, now, client.MergeFrom(base))).To(Succeed())
}

// jobsOf returns the Kubernetes Jobs of a FunctionJob.
func jobsOf(ctx context.Context, fj *v1alpha1.FunctionJob) []batchv1.Job {
	GinkgoHelper()
	jobs := &batchv1.JobList{}
	Expect(k8s.List(ctx, jobs, client.InNamespace(naming.DeployNamespace(fj.Namespace)),
		client.MatchingLabels{v1alpha1.LabelOwnerUID: string(fj.UID)})).To(Succeed())
	return jobs.Items
}

func podsOfRun(ctx context.Context, fj *v1alpha1.FunctionJob) []corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(k8s.List(ctx, pods, client.InNamespace(naming.DeployNamespace(fj.Namespace)),
		client.MatchingLabels{v1alpha1.LabelOwnerUID: string(fj.UID)})).To(Succeed())
	return pods.Items
}

// runningPod waits until the handler of a run works, and returns its pod.
func runningPod(ctx context.Context, fj *v1alpha1.FunctionJob) *corev1.Pod {
	GinkgoHelper()
	var found *corev1.Pod
	Eventually(func() bool {
		pods := podsOfRun(ctx, fj)
		for i := range pods {
			if pods[i].Status.Phase == corev1.PodRunning && strings.Contains(logOf(ctx, pods[i].Namespace, pods[i].Name), "attempt begins") {
				found = &pods[i]
				return true
			}
		}
		return false
	}).Should(BeTrue())
	return found
}

func clientset() *kubernetes.Clientset {
	GinkgoHelper()
	set, err := kubernetes.NewForConfig(restConfig())
	Expect(err).NotTo(HaveOccurred())
	return set
}

// logOf returns the end of a pod's log, or nothing when it has none.
func logOf(ctx context.Context, namespace, pod string) string {
	GinkgoHelper()
	stream, err := clientset().CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{TailLines: ptr.To[int64](5)}).Stream(ctx)
	if err != nil {
		return ""
	}
	defer func() { _ = stream.Close() }()
	data, err := io.ReadAll(io.LimitReader(stream, maxAnswer))
	Expect(err).NotTo(HaveOccurred())
	return string(data)
}

// leavesNothing waits until everything that was made for a FunctionJob is gone.
func leavesNothing(ctx context.Context, fj *v1alpha1.FunctionJob) {
	GinkgoHelper()
	for _, list := range []client.ObjectList{
		&batchv1.JobList{}, &corev1.PodList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
	} {
		Eventually(func() int {
			Expect(k8s.List(ctx, list, client.InNamespace(naming.DeployNamespace(fj.Namespace)),
				client.MatchingLabels{v1alpha1.LabelOwnerUID: string(fj.UID)})).To(Succeed())
			return meta.LenList(list)
		}).Should(BeZero(), "%T", list)
	}
}

var _ = Describe("A run of a function", func() {
	It("migrates once, with the function's settings; kubectl wait sees the end, and the result is in the status", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: namespace}, StringData: map[string]string{"user": "ada"}}
		Expect(k8s.Create(ctx, secret)).To(Succeed())
		fn := python(namespace, "migrate", worker)
		fn.Spec.Env = []corev1.EnvVar{{Name: "WHO", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "user",
		}}}}
		fj := jobOf(fn, "to-2", `{"from":1,"to":2,"keep":null}`)
		Expect(k8s.Create(ctx, fj)).To(Succeed())
		By("waiting for a function that does not exist yet")
		Eventually(func() string { return currentJob(ctx, fj).Status.Message }).Should(ContainSubstring("FunctionNotFound"))
		Expect(phase(ctx, fj)()).To(Equal("Pending 1"))
		Expect(k8s.Create(ctx, fn)).To(Succeed())

		kubectlWait(ctx, fj, "Complete")
		now := currentJob(ctx, fj)
		Expect(now.Status.Phase).To(Equal(v1alpha1.JobPhaseSucceeded))
		Expect(string(now.Status.Result.Raw)).To(MatchJSON(`{"migrated":{"from":1,"to":2,"keep":null},"left":null,"who":"ada"}`))
		Expect(now.Status.Attempts).To(BeEquivalentTo(1))
		Expect(now.Status.Message).To(BeEmpty())
		logs := now.Status.Logs
		Expect(logOf(ctx, logs.Namespace, logs.Pod)).To(ContainSubstring("attempt begins"))

		By("deleting the Job by hand: it never runs twice")
		job := jobsOf(ctx, fj)[0]
		Expect(k8s.Delete(ctx, &job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Consistently(func() int { return len(jobsOf(ctx, fj)) }, pause).Should(BeZero())
		Expect(currentJob(ctx, fj).ResourceVersion).To(Equal(now.ResourceVersion))

		By("growing runID: it runs again, with the new event")
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) {
			j.Spec.RunID, j.Spec.Event = 5, &runtime.RawExtension{Raw: []byte(`{"to":3}`)}
		})
		kubectlWait(ctx, fj, "Complete")
		now = currentJob(ctx, fj)
		Expect(now.Status.RunID).To(BeEquivalentTo(5))
		Expect(string(now.Status.Result.Raw)).To(ContainSubstring(`"to":3`))

		By("deleting it: nothing is left but the namespaces")
		Expect(k8s.Delete(ctx, fj)).To(Succeed())
		Eventually(gone(ctx, fj)).Should(BeTrue())
		leavesNothing(ctx, fj)
		Expect(ready(ctx, fn)()).To(Equal("True/Ready"))
	})

	It("tells the cause of every kind of end", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "worker", worker)
		fn.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("96Mi")}
		create(ctx, fn)
		ends := map[string]struct {
			phase   v1alpha1.FunctionJobPhase
			reason  string
			message string
		}{
			"raise":  {v1alpha1.JobPhaseFailed, v1alpha1.ReasonHandlerFailed, "handler.py line 7: ValueError: no luck"},
			"hang":   {v1alpha1.JobPhaseFailed, v1alpha1.ReasonHandlerTimeout, "within 2s"},
			"crash":  {v1alpha1.JobPhaseFailed, v1alpha1.ReasonHandlerCrashed, "exit status 7"},
			"eat":    {v1alpha1.JobPhaseFailed, v1alpha1.ReasonOOMKilled, "resources.limits.memory"},
			"object": {v1alpha1.JobPhaseFailed, v1alpha1.ReasonHandlerFailed, "has no JSON form"},
			"print":  {v1alpha1.JobPhaseSucceeded, "", ""},
			"large":  {v1alpha1.JobPhaseSucceeded, "", "the result has 5011 bytes, it is the last line of the log"},
			"none":   {v1alpha1.JobPhaseSucceeded, "", ""},
		}
		jobs := map[string]*v1alpha1.FunctionJob{}
		for how := range ends {
			fj := jobOf(fn, how, fmt.Sprintf(`{"how":%q}`, how))
			if how == "hang" {
				fj.Spec.TimeoutSeconds = ptr.To[int32](2)
			}
			Expect(k8s.Create(ctx, fj)).To(Succeed())
			jobs[how] = fj
		}
		for how, want := range ends {
			Eventually(phase(ctx, jobs[how])).Should(Equal(string(want.phase)+" 1"), how)
			now := currentJob(ctx, jobs[how])
			Expect(reasonOfFailure(now)).To(Equal(want.reason), how)
			Expect(now.Status.Message).To(ContainSubstring(want.message), how)
			if want.reason != "" {
				Expect(now.Status.Message).To(HavePrefix(want.reason+": "), how)
			}
			Expect(now.Status.Attempts).To(BeEquivalentTo(1), how)
		}
		large := currentJob(ctx, jobs["large"])
		Expect(large.Status.ResultTruncated).To(Equal(new(true)))
		Expect(large.Status.Result).To(BeNil())
		Expect(logOf(ctx, large.Status.Logs.Namespace, large.Status.Logs.Pod)).To(ContainSubstring(strings.Repeat("y", 5000)))
		kubectlWait(ctx, jobs["raise"], "Failed")
	})

	It("is tried again as often as asked", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "flaky", worker)
		create(ctx, fn)
		fj := jobOf(fn, "twice", `{"how":"raise"}`)
		fj.Spec.Retries = 1
		Expect(k8s.Create(ctx, fj)).To(Succeed())
		Eventually(func() string { return currentJob(ctx, fj).Status.Message }).Should(HavePrefix("attempt 2: HandlerFailed: "))
		Expect(phase(ctx, fj)()).To(Equal("Running 1"))
		Eventually(phase(ctx, fj)).Should(Equal("Failed 1"))
		Expect(currentJob(ctx, fj).Status.Attempts).To(BeEquivalentTo(2))
		Expect(podsOfRun(ctx, fj)).To(HaveLen(2))
	})

	It("gets an event that no environment could hold", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "big", worker)
		create(ctx, fn)
		fj := jobOf(fn, "big", `{"how":"size","data":"`+strings.Repeat("z", 900<<10)+`"}`)
		Expect(k8s.Create(ctx, fj)).To(Succeed())
		Eventually(phase(ctx, fj)).Should(Equal("Succeeded 1"))
		Expect(string(currentJob(ctx, fj).Status.Result.Raw)).To(Equal("921600"))
	})

	It("is cancelled by deletion, ends with its function, and waits for the run before it", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "slow", worker)
		fn.Spec.TimeoutSeconds = 600
		create(ctx, fn)
		fj := jobOf(fn, "cancelled", `{"how":"hang"}`)
		Expect(k8s.Create(ctx, fj)).To(Succeed())
		pod := runningPod(ctx, fj)
		By("asking for the next run while one goes on")
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) { j.Spec.RunID, j.Spec.Event = 2, nil })
		Eventually(func() string { return currentJob(ctx, fj).Status.Message }).Should(Equal("run 2 waits until run 1 has ended"))
		Expect(jobsOf(ctx, fj)).To(HaveLen(1))
		By("deleting it")
		Expect(k8s.Delete(ctx, fj)).To(Succeed())
		Eventually(gone(ctx, fj)).Should(BeTrue())
		leavesNothing(ctx, fj)
		Expect(gone(ctx, pod)()).To(BeTrue())

		By("deleting the function during a run")
		orphan := jobOf(fn, "orphan", `{"how":"hang"}`)
		Expect(k8s.Create(ctx, orphan)).To(Succeed())
		runningPod(ctx, orphan)
		Expect(k8s.Delete(ctx, fn)).To(Succeed())
		Eventually(phase(ctx, orphan)).Should(Equal("Failed 1"))
		Expect(reasonOfFailure(currentJob(ctx, orphan))).To(Equal(v1alpha1.ReasonFunctionNotFound))
		leavesNothing(ctx, orphan)
	})

	It("whose pod is evicted is tried again when retries are left, and fails when not", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "moved", worker)
		fn.Spec.TimeoutSeconds = 600
		create(ctx, fn)
		once, twice := jobOf(fn, "once", `{"how":"hang"}`), jobOf(fn, "twice", `{"how":"hang"}`)
		twice.Spec.Retries = 1
		for _, fj := range []*v1alpha1.FunctionJob{once, twice} {
			Expect(k8s.Create(ctx, fj)).To(Succeed())
			pod := runningPod(ctx, fj)
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}
			Expect(k8s.SubResource("eviction").Create(ctx, pod, eviction)).To(Succeed())
		}
		Eventually(phase(ctx, once)).Should(Equal("Failed 1"))
		Expect(reasonOfFailure(currentJob(ctx, once))).To(Equal(v1alpha1.ReasonEvicted))
		Eventually(func() int32 { return currentJob(ctx, twice).Status.Attempts }).Should(BeEquivalentTo(2))
		Expect(runningPod(ctx, twice).DeletionTimestamp).To(BeNil())
		By("deleting the Job by hand during the run")
		job := jobsOf(ctx, twice)[0]
		Expect(k8s.Delete(ctx, &job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Eventually(phase(ctx, twice)).Should(Equal("Failed 1"))
		Expect(reasonOfFailure(currentJob(ctx, twice))).To(BeElementOf(v1alpha1.ReasonRunDeleted, v1alpha1.ReasonInterrupted))
		Consistently(func() int { return len(jobsOf(ctx, twice)) }, pause).Should(BeZero())
	})

	It("waits for room in the quota, goes on though its function is switched off, and is removed after the time that is given", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "steady", worker)
		create(ctx, fn)
		fj := jobOf(fn, "steady", `{"to":1}`)
		Expect(k8s.Create(ctx, fj)).To(Succeed())
		Eventually(phase(ctx, fj)).Should(Equal("Succeeded 1"))
		By("having no room in the quota")
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full", Namespace: naming.DeployNamespace(fn.Namespace)}}
		quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
		Expect(k8s.Create(ctx, quota)).To(Succeed())
		Eventually(func() bool {
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(quota), quota)).To(Succeed())
			used := quota.Status.Used[corev1.ResourcePods]
			return used.Value() > 0
		}).Should(BeTrue())
		refused := jobOf(fn, "refused", `{"to":1}`)
		Expect(k8s.Create(ctx, refused)).To(Succeed())
		Eventually(func() string { return currentJob(ctx, refused).Status.Message }).Should(HavePrefix("QuotaExceeded: "))
		Expect(k8s.Delete(ctx, quota)).To(Succeed())
		Eventually(phase(ctx, refused)).Should(Equal("Succeeded 1"))
		Expect(currentJob(ctx, refused).Status.Message).To(BeEmpty())

		By("running a function that is switched off, and cleaning up after the time that is given")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Replicas = ptr.To[int32](0) })
		Eventually(func() v1alpha1.FunctionPhase { return current(ctx, fn).Status.Phase }).Should(Equal(v1alpha1.PhaseDisabled))
		changeJob(ctx, fj, func(j *v1alpha1.FunctionJob) {
			j.Spec.RunID, j.Spec.TTLSecondsAfterFinished = 2, ptr.To[int32](3)
		})
		Eventually(phase(ctx, fj)).Should(Equal("Succeeded 2"))
		Expect(jobsOf(ctx, fj)).To(HaveLen(1))
		Eventually(gone(ctx, fj)).Should(BeTrue())
		leavesNothing(ctx, fj)
	})
})

// kubectlWait waits as a user does in a script.
func kubectlWait(ctx context.Context, fj *v1alpha1.FunctionJob, condition string) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, kubectl(), "wait", "--for=condition="+condition, "functionjob/"+fj.Name,
		"-n", fj.Namespace, "--timeout=120s")
	cmd.Env = os.Environ()
	if !otherCluster() {
		path, err := filepath.Abs(filepath.Join("..", "..", "bin", "cluster", "kubeconfig"))
		Expect(err).NotTo(HaveOccurred())
		cmd.Env = append(cmd.Env, "KUBECONFIG="+path)
	}
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
}

// kubectl is that of the machine, or the one that was built for the local cluster.
func kubectl() string {
	GinkgoHelper()
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path
	}
	cache := os.Getenv("SLESS_CACHE")
	if cache == "" {
		base, err := os.UserCacheDir()
		Expect(err).NotTo(HaveOccurred())
		cache = filepath.Join(base, "sless")
	}
	found, err := filepath.Glob(filepath.Join(cache, "tools", "kubernetes-*", "kubectl"))
	Expect(err).NotTo(HaveOccurred())
	Expect(found).NotTo(BeEmpty(), "there is no kubectl in PATH and none in %s", cache)
	return found[0]
}
