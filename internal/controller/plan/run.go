// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

const (
	// unschedulableAfter is how long a pod may look for a node before the status speaks of it. When many runs begin at
	// once, most of them wait a moment.
	unschedulableAfter = 5 * time.Second
	// refusedAfter is how long a Job has no pod before it is asked why.
	refusedAfter = 2 * time.Second
	// resultTruncated begins the message of a run whose result is too long for one.
	resultTruncated = "ResultTruncated"
	// unstorable is the message of a run whose result is JSON that Kubernetes does not take.
	unstorable     = "the result holds a number that Kubernetes cannot store; the whole result is the last line of the log"
	reasonDeadline = "DeadlineExceeded"
	// StopTimeout bounds how long a pod that was told to stop is waited for. One on a dead node never ends.
	StopTimeout = 60 * time.Second
)

// runReasons are the words with which the watchdog begins the termination message of a run that failed.
var runReasons = []string{
	v1alpha1.ReasonHandlerLoadFailed, v1alpha1.ReasonHandlerCrashed, v1alpha1.ReasonHandlerTimeout,
	v1alpha1.ReasonHandlerFailed, v1alpha1.ReasonOOMKilled, v1alpha1.ReasonInterrupted,
}

// RunStep is what is to be done about a FunctionJob.
type RunStep int

// Steps.
const (
	// RunSkip: no run was ever asked for.
	RunSkip RunStep = iota
	// RunStart: a run is asked for that was not begun yet.
	RunStart
	// RunFollow: a run goes on. A later one waits for its end.
	RunFollow
	// RunDone: the run that is asked for has ended.
	RunDone
)

// NextRunStep tells what is to be done. The status alone decides whether a run was begun, so that none is begun twice
// whatever happened to its Job.
func NextRunStep(j *v1alpha1.FunctionJob) RunStep {
	status := &j.Status
	switch {
	case status.StartTime != nil && status.CompletionTime == nil:
		return RunFollow
	case j.Spec.RunID == 0:
		return RunSkip
	case status.StartTime != nil && status.RunID >= j.Spec.RunID:
		return RunDone
	default:
		return RunStart
	}
}

// EarlierRuns returns the events of the runs before the one that is asked for that were begun and of whose end the status
// does not know, the earliest first. secrets are what was made for the FunctionJob. There is no event of a run that was not
// begun, and none for long of one whose end is written down.
func EarlierRuns(j *v1alpha1.FunctionJob, secrets []metav1.PartialObjectMetadata) []metav1.PartialObjectMetadata {
	var ended int64
	if j.Status.StartTime != nil {
		ended = j.Status.RunID
	}
	runs := slices.DeleteFunc(slices.Clone(secrets), func(secret metav1.PartialObjectMetadata) bool {
		runID := RunID(&secret)
		return runID <= ended || runID >= j.Spec.RunID || secret.Name != resources.RunEventName(j, runID)
	})
	slices.SortFunc(runs, func(a, b metav1.PartialObjectMetadata) int { return cmp.Compare(RunID(&a), RunID(&b)) })
	return runs
}

// RunID returns the run for which an object was made, or 0, which no run has.
func RunID(obj metav1.Object) int64 {
	runID, err := strconv.ParseInt(obj.GetLabels()[v1alpha1.LabelRunID], 10, 64)
	if err != nil {
		return 0
	}
	return runID
}

// Runnable tells whether the image of a Function's spec is proven, and if not, why not in the words of its status. A Function
// that is switched off, or whose autoscaler is away, can be run: both are about calls. While a Function is switched off, its
// status may name the image of an earlier spec, which a run must not get; what keeps the newer one is then the reason of
// Reconciling or Stalled.
func Runnable(fn *v1alpha1.Function) *Fault {
	ready := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || fn.Status.ObservedGeneration != fn.Generation {
		return &Fault{Reason: v1alpha1.ReasonPending, Message: "the Function's spec was not looked at yet"}
	}
	stalled := meta.IsStatusConditionTrue(fn.Status.Conditions, v1alpha1.ConditionStalled)
	why := ready
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if c := meta.FindStatusCondition(fn.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			why = c
		}
	}
	if fn.Status.Image != "" && (ready.Status == metav1.ConditionTrue || aboutCalls[why.Reason]) {
		return nil
	}
	return &Fault{Reason: why.Reason, Message: truncate(why.Message), User: stalled}
}

// aboutCalls are the reasons for which a Function answers no calls though its image is proven.
var aboutCalls = map[string]bool{
	v1alpha1.ReasonDisabled: true, v1alpha1.ReasonScaledToZero: true, v1alpha1.ReasonAutoscalerFailed: true,
}

// Run is what the Job and the pods of a run tell of it.
type Run struct {
	// Attempts is how often a pod was asked for.
	Attempts int32
	// Ended is true when nothing more will come, and Succeeded says how it ended.
	Ended, Succeeded bool
	// Reason and Message say why the run failed or, while it goes on, what it waits for or why the last attempt failed.
	Reason, Message string
	// Pod is the name of the pod of the last attempt that ended.
	Pod string
	// Result is JSON, or nil. Truncated is true when it was too long, or is none that a status can hold.
	Result    []byte
	Truncated bool
	// Unseen tells that the run has ended by its Job, or by the absence of that, and that no pod shows it. The pod is gone, or
	// has not been heard of yet: Jobs and pods are watched apart.
	Unseen bool
	// LookAgain is when the run has to be looked at though nothing has changed, or 0.
	LookAgain time.Duration
}

// ObserveRun tells how a run goes. The pods tell it first: a Job counts them a second late. job is nil when it is gone.
func ObserveRun(job *batchv1.Job, pods []corev1.Pod, now time.Time) Run {
	pods = byAge(pods)
	run := Run{}
	var failed int32
	var last, current *corev1.Pod
	for i := range pods {
		switch ended, succeeded := attemptEnd(&pods[i]); {
		case succeeded:
			return succeededRun(&pods[i], failed+1)
		case ended:
			failed++
			last = &pods[i]
		default:
			current = &pods[i]
		}
	}
	if last != nil {
		run.Pod = last.Name
		run.Reason, run.Message = attemptFault(last)
	}
	if job == nil {
		return runWithoutJob(run, failed, current, now)
	}
	failed = max(failed, job.Status.Failed)
	retries := ptr.Deref(job.Spec.BackoffLimit, 0)
	if jobEnded, succeeded, message := jobEnd(job); jobEnded || failed > retries {
		run.Attempts, run.Ended, run.Succeeded = max(failed, 1), true, succeeded
		run.Unseen = succeeded || last == nil || current != nil
		if succeeded {
			run.Reason, run.Message = "", "the function succeeded; its pod, and with it the result, is gone"
		} else if last == nil {
			run.Reason, run.Message = v1alpha1.ReasonInterrupted, "the pod is gone: "+message
		}
		return run
	}
	run.Attempts = failed + 1
	if wait := waitingFault(current, now, &run.LookAgain); wait != nil {
		run.Reason, run.Message = wait.Reason, wait.Message
	}
	return run
}

// runWithoutJob tells how a run goes whose Job was deleted. It has ended when its pod has, or is given up: until then the
// function works, and another run would work beside it.
func runWithoutJob(run Run, failed int32, current *corev1.Pod, now time.Time) Run {
	run.Reason, run.Attempts = v1alpha1.ReasonRunDeleted, failed
	if current != nil {
		run.Attempts++
		left := StopTimeout
		if !current.DeletionTimestamp.IsZero() {
			left = min(current.DeletionTimestamp.Add(StopTimeout).Sub(now), StopTimeout)
			run.LookAgain = max(left, 0)
		}
		if left > 0 {
			run.Message = fmt.Sprintf("the Job of this run was deleted, and its pod %s has not ended yet", current.Name)
			return run
		}
	}
	run.Ended, run.Unseen = true, true
	run.Message = "the Job of this run was deleted, and the run with it"
	return run
}

// LivePods returns the pods of a run whose attempts have not ended.
func LivePods(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool {
		ended, _ := attemptEnd(&pod)
		return ended
	})
}

// LookForRefusal returns how long to wait before the reason is looked for that a run has no live pod, or 0 when that is now
// or there is nothing to look for. Most pods come at once.
func LookForRefusal(job *batchv1.Job, pods []corev1.Pod, now time.Time) time.Duration {
	if !MayBeRefused(job, pods) {
		return 0
	}
	if age := now.Sub(job.Status.StartTime.Time); age < refusedAfter {
		return refusedAfter - max(age, 0)
	}
	return 0
}

func succeededRun(pod *corev1.Pod, attempts int32) Run {
	run := Run{Attempts: attempts, Ended: true, Succeeded: true, Pod: pod.Name}
	end := endOf(pod)
	if end == nil {
		return run
	}
	text := strings.TrimSpace(end.Message)
	switch {
	case strings.HasPrefix(text, resultTruncated+": "):
		_, run.Message = splitReason(text, "")
		run.Truncated = true
	case text == "null" || !json.Valid([]byte(text)):
	case storable(text):
		run.Result = []byte(text)
	default:
		run.Truncated, run.Message = true, unstorable
	}
	return run
}

// storable tells whether the API server can read JSON. Its decoder knows no numbers beyond those of 64 bits, and a status that
// it cannot read can never be written. Whatever else is JSON it reads in its own way.
func storable(text string) bool {
	var value any
	return utiljson.Unmarshal([]byte(text), &value) == nil
}

// jobEnd tells what the Job controller says of the end.
func jobEnd(job *batchv1.Job) (ended, succeeded bool, message string) {
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return true, true, ""
		case batchv1.JobFailed:
			return true, false, truncate(c.Message)
		}
	}
	return false, false, "nothing more is known"
}

// attemptEnd tells whether an attempt has ended, and how. The kubelet tells of the end of the container up to a second
// before it makes that the phase of the pod, which no other container can change.
func attemptEnd(pod *corev1.Pod) (ended, succeeded bool) {
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return true, true
	case corev1.PodFailed:
		return true, false
	}
	end := endOf(pod)
	return end != nil, end != nil && end.ExitCode == 0
}

func endOf(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == resources.ContainerName {
			return pod.Status.ContainerStatuses[i].State.Terminated
		}
	}
	return nil
}

// attemptFault tells why the pod of an attempt failed.
func attemptFault(pod *corev1.Pod) (reason, message string) {
	end := endOf(pod)
	if pod.Status.Reason == reasonDeadline {
		return v1alpha1.ReasonDeadlineExceeded, fmt.Sprintf("the attempt did not begin, or did not end, within the %d s that its pod is given",
			ptr.Deref(pod.Spec.ActiveDeadlineSeconds, 0))
	}
	if end != nil && end.Reason == reasonOOMKilled {
		fault := endFault(end)
		return fault.Reason, fault.Message
	}
	text := ""
	if end != nil {
		reason, text = splitReason(end.Message, "")
	}
	known := slices.Contains(runReasons, reason)
	if known && reason != v1alpha1.ReasonInterrupted {
		return reason, text
	}
	if why := disruption(pod); why != "" {
		return v1alpha1.ReasonEvicted, "the pod was taken from its node: " + truncate(why)
	}
	if known {
		return reason, text
	}
	if end == nil {
		return v1alpha1.ReasonPodsRefused, "the node refused the pod: " + truncate(cmp.Or(pod.Status.Message, pod.Status.Reason))
	}
	return v1alpha1.ReasonHandlerCrashed, endFault(end).Message
}

// disruption tells who took a pod away, or "".
func disruption(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	switch pod.Status.Reason {
	case "Evicted", "Preempting", "NodeShutdown", "Terminated", "NodeLost":
		return cmp.Or(pod.Status.Message, pod.Status.Reason)
	}
	return ""
}

// waitingFault tells what keeps the pod of the current attempt from running, or nil.
func waitingFault(pod *corev1.Pod, now time.Time, lookAgain *time.Duration) *Fault {
	if pod == nil || !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	if message := unschedulable(pod); message != "" {
		if age := now.Sub(pod.CreationTimestamp.Time); age < unschedulableAfter {
			*lookAgain = unschedulableAfter - max(age, 0)
			return nil
		}
		return &Fault{Reason: v1alpha1.ReasonUnschedulable, Message: "no node takes the pod: " + truncate(message)}
	}
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.Name == resources.ContainerName && status.State.Waiting != nil {
			return containerFault(*status)
		}
	}
	return nil
}
