// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/testutil"
)

var runTime = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)

func TestNextRunStep(t *testing.T) {
	t.Parallel()
	at := &metav1.Time{Time: runTime}
	tests := map[string]struct {
		asked  int64
		status v1alpha1.FunctionJobStatus
		want   RunStep
	}{
		"declared":                       {want: RunSkip},
		"new":                            {asked: 1, want: RunStart},
		"declared before, asked now":     {asked: 1, status: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseSkipped}, want: RunStart},
		"waits for its function":         {asked: 3, status: v1alpha1.FunctionJobStatus{RunID: 3}, want: RunStart},
		"goes on":                        {asked: 3, status: v1alpha1.FunctionJobStatus{RunID: 3, StartTime: at}, want: RunFollow},
		"goes on, next one asked for":    {asked: 4, status: v1alpha1.FunctionJobStatus{RunID: 3, StartTime: at}, want: RunFollow},
		"ended":                          {asked: 3, status: v1alpha1.FunctionJobStatus{RunID: 3, StartTime: at, CompletionTime: at}, want: RunDone},
		"ended, next one asked for":      {asked: 4, status: v1alpha1.FunctionJobStatus{RunID: 3, StartTime: at, CompletionTime: at}, want: RunStart},
		"ended, of a smaller one's spec": {asked: 2, status: v1alpha1.FunctionJobStatus{RunID: 3, StartTime: at, CompletionTime: at}, want: RunDone},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fj := &v1alpha1.FunctionJob{Spec: v1alpha1.FunctionJobSpec{RunID: tc.asked}, Status: tc.status}
			if got := NextRunStep(fj); got != tc.want {
				t.Errorf("NextRunStep = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestEarlierRuns(t *testing.T) {
	t.Parallel()
	fj := testutil.MakeFunctionJob("j", "n", "f").UID("uid").Run(12).Obj()
	secret := func(name, run string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelRunID: run}}}
	}
	secrets := []metav1.PartialObjectMetadata{secret("copy", "9"), secret(resources.RunEventName(fj, 7), "none")}
	for _, runID := range []int64{13, 12, 11, 9, 3, 10} {
		secrets = append(secrets, secret(resources.RunEventName(fj, runID), strconv.FormatInt(runID, 10)))
	}
	at := &metav1.Time{Time: runTime}
	tests := map[string]struct {
		status v1alpha1.FunctionJobStatus
		want   []int64
	}{
		"nothing written down":          {want: []int64{3, 9, 10, 11}},
		"waits, with no run remembered": {status: v1alpha1.FunctionJobStatus{RunID: 12}, want: []int64{3, 9, 10, 11}},
		"one that has ended":            {status: v1alpha1.FunctionJobStatus{RunID: 9, StartTime: at, CompletionTime: at}, want: []int64{10, 11}},
		"one that has just ended":       {status: v1alpha1.FunctionJobStatus{RunID: 9, StartTime: at}, want: []int64{10, 11}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fj := fj.DeepCopy()
			fj.Status = tc.status
			var got []int64
			for _, event := range EarlierRuns(fj, secrets) {
				got = append(got, RunID(&event))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("EarlierRuns (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunnable(t *testing.T) {
	t.Parallel()
	// function is one whose Ready has the reason and, beside it, Reconciling or Stalled.
	function := func(status metav1.ConditionStatus, reason, beside, because string) *v1alpha1.Function {
		fn := testutil.MakeFunction("f", "n").Generation(2).Obj()
		fn.Status = v1alpha1.FunctionStatus{ObservedGeneration: 2, Image: "image@sha256:1"}
		for _, kind := range []string{"Reconciling", "Stalled", "Ready"} {
			c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: because}
			if kind == beside {
				c.Status, c.Message = metav1.ConditionTrue, "because"
			}
			if kind == "Ready" {
				c.Status, c.Reason, c.Message = status, reason, "because"
			}
			fn.Status.Conditions = append(fn.Status.Conditions, c)
		}
		return fn
	}
	old := function(metav1.ConditionTrue, "Ready", "", "Ready")
	old.Generation = 3
	noImage := function(metav1.ConditionFalse, "Disabled", "Stalled", "Disabled")
	noImage.Status.Image = ""
	tests := map[string]struct {
		fn   *v1alpha1.Function
		want *Fault
	}{
		"ready":                {fn: function(metav1.ConditionTrue, "Ready", "", "Ready")},
		"scaled to zero":       {fn: function(metav1.ConditionFalse, "ScaledToZero", "Stalled", "ScaledToZero")},
		"switched off":         {fn: function(metav1.ConditionFalse, "Disabled", "Stalled", "Disabled")},
		"its autoscaler away":  {fn: function(metav1.ConditionFalse, "AutoscalerFailed", "Reconciling", "AutoscalerFailed")},
		"building":             {fn: function(metav1.ConditionUnknown, "Building", "Reconciling", "Building"), want: &Fault{Reason: "Building", Message: "because"}},
		"broken":               {fn: function(metav1.ConditionFalse, "HandlerLoadFailed", "Stalled", "HandlerLoadFailed"), want: &Fault{Reason: "HandlerLoadFailed", Message: "because", User: true}},
		"off, and being built": {fn: function(metav1.ConditionFalse, "Disabled", "Reconciling", "Building"), want: &Fault{Reason: "Building", Message: "because"}},
		"off, and broken":      {fn: function(metav1.ConditionFalse, "Disabled", "Stalled", "BuildFailed"), want: &Fault{Reason: "BuildFailed", Message: "because", User: true}},
		"never looked at":      {fn: testutil.MakeFunction("f", "n").Obj(), want: &Fault{Reason: "Pending", Message: "the Function's spec was not looked at yet"}},
		"changed meanwhile":    {fn: old, want: &Fault{Reason: "Pending", Message: "the Function's spec was not looked at yet"}},
		"off without image":    {fn: noImage, want: &Fault{Reason: "Disabled", Message: "because", User: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Runnable(tc.fn)); diff != "" {
				t.Errorf("Runnable (-want +got):\n%s", diff)
			}
		})
	}
}

// attempt is a pod of a run.
func attempt(name string, phase corev1.PodPhase, change ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(runTime)},
		Status:     corev1.PodStatus{Phase: phase},
	}
	for _, c := range change {
		c(&pod)
	}
	return pod
}

func endedWith(code int32, reason, message string) func(*corev1.Pod) {
	return state(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}})
}

func state(s corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar"}, {Name: resources.ContainerName, State: s}}
	}
}

func later(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(runTime.Add(d)) }
}

// stopsAt is a pod that was told to be gone by then.
func stopsAt(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(runTime.Add(d))) }
}

func because(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = reason, message }
}

func podCondition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

func runJob(retries int32, change ...func(*batchv1.JobStatus)) *batchv1.Job {
	job := &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: new(retries)}}
	for _, c := range change {
		c(&job.Status)
	}
	return job
}

func jobCondition(kind batchv1.JobConditionType, message string) func(*batchv1.JobStatus) {
	return func(s *batchv1.JobStatus) {
		s.Conditions = append(s.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Message: message})
	}
}

func TestObserveRun(t *testing.T) {
	t.Parallel()
	pods := func(pods ...corev1.Pod) []corev1.Pod { return pods }
	failedOnce := attempt("a", corev1.PodFailed, endedWith(1, "Error", "HandlerFailed: handler.py line 7: ValueError: no luck"))
	interrupted := endedWith(1, "Error", "Interrupted: told to stop before the handler was done")
	tests := map[string]struct {
		job  *batchv1.Job
		pods []corev1.Pod
		at   time.Duration
		want Run
	}{
		"just begun": {job: runJob(0), want: Run{Attempts: 1}},
		"works":      {job: runJob(0), pods: pods(attempt("a", corev1.PodRunning)), want: Run{Attempts: 1}},
		"succeeded before its Job knows": {job: runJob(0), pods: pods(attempt("a", corev1.PodSucceeded, endedWith(0, "Completed", `{"a":1}`))),
			want: Run{Attempts: 1, Ended: true, Succeeded: true, Pod: "a", Result: []byte(`{"a":1}`)}},
		"succeeded before its pod says so": {job: runJob(0), pods: pods(attempt("a", corev1.PodRunning, endedWith(0, "Completed", "1"))),
			want: Run{Attempts: 1, Ended: true, Succeeded: true, Pod: "a", Result: []byte("1")}},
		"failed before its pod says so": {job: runJob(1), pods: pods(attempt("a", corev1.PodRunning, endedWith(1, "Error", "HandlerFailed: no"))),
			want: Run{Attempts: 2, Pod: "a", Reason: "HandlerFailed", Message: "no"}},
		"null": {job: runJob(0), pods: pods(attempt("a", corev1.PodSucceeded, endedWith(0, "Completed", "null"))),
			want: Run{Attempts: 1, Ended: true, Succeeded: true, Pod: "a"}},
		"not JSON": {job: runJob(0), pods: pods(attempt("a", corev1.PodSucceeded, endedWith(0, "Completed", "hm"))),
			want: Run{Attempts: 1, Ended: true, Succeeded: true, Pod: "a"}},
		"no message": {job: runJob(0), pods: pods(attempt("a", corev1.PodSucceeded)),
			want: Run{Attempts: 1, Ended: true, Succeeded: true, Pod: "a"}},
		"long result": {job: runJob(0), pods: pods(attempt("a", corev1.PodSucceeded, endedWith(0, "Completed", "ResultTruncated: the result has 5002 bytes"))),
			want: Run{Attempts: 1, Ended: true, Succeeded: true, Pod: "a", Message: "the result has 5002 bytes", Truncated: true}},
		"a number beyond all of Kubernetes": {job: runJob(0), pods: pods(attempt("a", corev1.PodSucceeded, endedWith(0, "Completed", `{"a":[1e999]}`))),
			want: Run{Attempts: 1, Ended: true, Succeeded: true, Pod: "a", Truncated: true,
				Message: "the result holds a number that Kubernetes cannot store; the whole result is the last line of the log"}},
		"succeeded at the second attempt": {job: runJob(1), pods: pods(attempt("b", corev1.PodSucceeded, later(time.Second), endedWith(0, "", "1")), failedOnce),
			want: Run{Attempts: 2, Ended: true, Succeeded: true, Pod: "b", Result: []byte("1")}},
		"failed for good": {job: runJob(0), pods: pods(failedOnce),
			want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "HandlerFailed", Message: "handler.py line 7: ValueError: no luck"}},
		"will be tried again": {job: runJob(2), pods: pods(failedOnce),
			want: Run{Attempts: 2, Pod: "a", Reason: "HandlerFailed", Message: "handler.py line 7: ValueError: no luck"}},
		"the last of two causes": {job: runJob(1), pods: pods(
			attempt("z", corev1.PodFailed, endedWith(1, "Error", "HandlerTimeout: handler.handle did not end within 3s")),
			attempt("a", corev1.PodFailed, later(time.Minute), endedWith(3, "Error", ""))),
			want: Run{Attempts: 2, Ended: true, Pod: "a", Reason: "HandlerCrashed", Message: "the function's process ended with exit code 3"}},
		"killed by the kernel": {job: runJob(0), pods: pods(attempt("a", corev1.PodFailed, endedWith(137, "OOMKilled", ""))),
			want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "OOMKilled", Message: "the function used more memory than resources.limits.memory allows; raise the limit"}},
		"killed by the kernel, the worker only": {job: runJob(0), pods: pods(attempt("a", corev1.PodFailed, endedWith(1, "Error", "OOMKilled: raise the limit"))),
			want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "OOMKilled", Message: "raise the limit"}},
		"a word that is not ours": {job: runJob(0), pods: pods(attempt("a", corev1.PodFailed, endedWith(2, "Error", "BadConfiguration: no such flag"))),
			want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "HandlerCrashed", Message: "BadConfiguration: no such flag"}},
		"deleted by hand": {job: runJob(0), pods: pods(attempt("a", corev1.PodFailed, interrupted)),
			want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "Interrupted", Message: "told to stop before the handler was done"}},
		"evicted by the API": {job: runJob(0), pods: pods(attempt("a", corev1.PodFailed, interrupted,
			podCondition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI", "Eviction API: evicting"))),
			want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "Evicted", Message: "the pod was taken from its node: Eviction API: evicting"}},
		"evicted by the node": {job: runJob(1), pods: pods(attempt("a", corev1.PodFailed, because("Evicted", "low on memory"))),
			want: Run{Attempts: 2, Pod: "a", Reason: "Evicted", Message: "the pod was taken from its node: low on memory"}},
		"failed by itself while being evicted": {job: runJob(0), pods: pods(attempt("a", corev1.PodFailed, endedWith(1, "Error", "HandlerFailed: no"),
			podCondition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI", ""))),
			want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "HandlerFailed", Message: "no"}},
		"refused by the node": {job: runJob(0), pods: pods(attempt("a", corev1.PodFailed, because("OutOfcpu", ""))),
			want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "PodsRefused", Message: "the node refused the pod: OutOfcpu"}},
		"over the pod's time": {job: runJob(0), pods: pods(attempt("a", corev1.PodFailed, because("DeadlineExceeded", "x"), interrupted,
			func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](780) })),
			want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "DeadlineExceeded",
				Message: "the attempt did not begin, or did not end, within the 780 s that its pod is given"}},
		"image cannot be pulled": {job: runJob(0), pods: pods(attempt("a", corev1.PodPending, state(corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such host"}}))),
			want: Run{Attempts: 1, Reason: "ImagePullFailed", Message: "no such host"}},
		"starting": {job: runJob(0), pods: pods(attempt("a", corev1.PodPending, state(corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}))), want: Run{Attempts: 1}},
		"no node yet": {job: runJob(0), at: 2 * time.Second, pods: pods(attempt("a", corev1.PodPending,
			podCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "0/1 nodes"))),
			want: Run{Attempts: 1, LookAgain: 3 * time.Second}},
		"no node for long": {job: runJob(0), at: 5 * time.Second, pods: pods(attempt("a", corev1.PodPending,
			podCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "0/1 nodes"))),
			want: Run{Attempts: 1, Reason: "Unschedulable", Message: "no node takes the pod: 0/1 nodes"}},
		"no node, and a clock behind": {job: runJob(0), at: -time.Hour, pods: pods(attempt("a", corev1.PodPending,
			podCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "0/1 nodes"))),
			want: Run{Attempts: 1, LookAgain: 5 * time.Second}},
		"pods gone, counted": {job: runJob(0, func(s *batchv1.JobStatus) { s.Failed = 1 }),
			want: Run{Attempts: 1, Ended: true, Reason: "Interrupted", Message: "the pod is gone: nothing more is known", Unseen: true}},
		"pods gone, one more to come": {job: runJob(1, func(s *batchv1.JobStatus) { s.Failed = 1 }), want: Run{Attempts: 2}},
		"pods gone, Job failed": {job: runJob(3, jobCondition(batchv1.JobFailed, "Job has reached the specified backoff limit")),
			want: Run{Attempts: 1, Ended: true, Reason: "Interrupted", Message: "the pod is gone: Job has reached the specified backoff limit", Unseen: true}},
		"pods gone, Job complete": {job: runJob(0, jobCondition(batchv1.JobComplete, "")),
			want: Run{Attempts: 1, Ended: true, Succeeded: true, Message: "the function succeeded; its pod, and with it the result, is gone", Unseen: true}},
		"Job complete before its pod says so": {job: runJob(0, jobCondition(batchv1.JobComplete, "")), pods: pods(attempt("a", corev1.PodRunning)),
			want: Run{Attempts: 1, Ended: true, Succeeded: true, Message: "the function succeeded; its pod, and with it the result, is gone", Unseen: true}},
		"Job failed before its last pod says so": {job: runJob(1, jobCondition(batchv1.JobFailed, "")),
			pods: pods(failedOnce, attempt("b", corev1.PodRunning, later(time.Minute))),
			want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "HandlerFailed", Message: "handler.py line 7: ValueError: no luck", Unseen: true}},
		"Job failed, its pod seen": {job: runJob(0, jobCondition(batchv1.JobFailed, "")), pods: pods(failedOnce),
			want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "HandlerFailed", Message: "handler.py line 7: ValueError: no luck"}},
		"Job gone": {pods: pods(failedOnce), want: Run{Attempts: 1, Ended: true, Pod: "a", Reason: "RunDeleted",
			Message: "the Job of this run was deleted, and the run with it", Unseen: true}},
		"Job gone, its pod works": {at: time.Hour, pods: pods(failedOnce, attempt("b", corev1.PodRunning, later(time.Minute))),
			want: Run{Attempts: 2, Pod: "a", Reason: "RunDeleted", Message: "the Job of this run was deleted, and its pod b has not ended yet"}},
		"Job gone, its pod stops": {at: 20 * time.Second, pods: pods(attempt("a", corev1.PodRunning, stopsAt(10*time.Second))),
			want: Run{Attempts: 1, LookAgain: 50 * time.Second, Reason: "RunDeleted",
				Message: "the Job of this run was deleted, and its pod a has not ended yet"}},
		"Job gone, its pod stops, and a clock behind": {at: -time.Hour, pods: pods(attempt("a", corev1.PodRunning, stopsAt(10*time.Second))),
			want: Run{Attempts: 1, LookAgain: time.Minute, Reason: "RunDeleted",
				Message: "the Job of this run was deleted, and its pod a has not ended yet"}},
		"Job gone, its pod on a dead node": {at: 70 * time.Second, pods: pods(attempt("a", corev1.PodRunning, stopsAt(10*time.Second))),
			want: Run{Attempts: 1, Ended: true, Reason: "RunDeleted", Unseen: true,
				Message: "the Job of this run was deleted, and the run with it"}},
		"Job gone after the success": {pods: pods(attempt("a", corev1.PodSucceeded, endedWith(0, "", "2"))),
			want: Run{Attempts: 1, Ended: true, Succeeded: true, Pod: "a", Result: []byte("2")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, ObserveRun(tc.job, tc.pods, runTime.Add(tc.at))); diff != "" {
				t.Errorf("ObserveRun (-want +got):\n%s", diff)
			}
		})
	}
}

// What is called storable here is written by a real API server in the test of the controller.
func TestStorable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want bool
	}{
		"an exponent too large":    {text: "1e999"},
		"a whole number too large": {text: "-1" + strings.Repeat("0", 400)},
		"deep inside":              {text: `{"a":[1,{"b":1e309}]}`},
		"the largest":              {text: "1.7976931348623157e308", want: true},
		"beyond 64 bits":           {text: "[18446744073709551616,1e-999]", want: true},
		"such a number as text":    {text: `"1e999"`, want: true},
		"a key twice":              {text: `{"a":1,"a":2}`, want: true},
		"half a character":         {text: `"\ud800"`, want: true},
		"not UTF-8":                {text: "\"\xff\"", want: true},
		"zero bytes":               {text: `{"\u0000":"\u0000"}`, want: true},
		"as deep as 4 KiB can be":  {text: strings.Repeat("[", 2048) + strings.Repeat("]", 2048), want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := storable(tc.text); got != tc.want {
				t.Errorf("storable = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestLookForRefusal(t *testing.T) {
	t.Parallel()
	started := runJob(0, func(s *batchv1.JobStatus) { s.StartTime = &metav1.Time{Time: runTime} })
	tests := map[string]struct {
		job  *batchv1.Job
		pods []corev1.Pod
		at   time.Duration
		want time.Duration
	}{
		"Job not looked at yet": {job: runJob(0)},
		"has a pod":             {job: started, at: time.Second, pods: []corev1.Pod{attempt("a", corev1.PodPending)}},
		"has but ended pods": {job: started, at: time.Second, want: time.Second, pods: []corev1.Pod{
			attempt("a", corev1.PodFailed), attempt("b", corev1.PodRunning, endedWith(1, "Error", ""))}},
		"a moment without": {job: started, at: time.Second, want: time.Second},
		"too long without": {job: started, at: 2 * time.Second},
		"a clock behind":   {job: started, at: -time.Hour, want: 2 * time.Second},
		"Job gone":         {},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := LookForRefusal(tc.job, LivePods(tc.pods), runTime.Add(tc.at)); got != tc.want {
				t.Errorf("LookForRefusal = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestObserveRunBoundsWhatItQuotes(t *testing.T) {
	t.Parallel()
	long := endedWith(1, "Error", "HandlerFailed: "+strings.Repeat("x", 4000))
	if got := ObserveRun(runJob(0), []corev1.Pod{attempt("a", corev1.PodFailed, long)}, runTime); len(got.Message) > maxMessage+10 {
		t.Errorf("the message has %d bytes", len(got.Message))
	}
}
