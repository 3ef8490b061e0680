// SPDX-License-Identifier: Apache-2.0

// Package plan holds the controllers' decisions as pure functions: what was seen goes in, what to do comes out.
package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

// BuildAction is what to do about a build.
type BuildAction int

const (
	// BuildWait leaves the Job alone.
	BuildWait BuildAction = iota
	// BuildCreate creates the Job, suspended.
	BuildCreate
	// BuildStart lets a suspended Job go.
	BuildStart
	// BuildDelete removes the Job so that it is built again.
	BuildDelete
	// BuildHold keeps a failed Job until it is time to try again.
	BuildHold
	// BuildSuspend takes a Job back that gets no pod. It is let go again after a pause.
	BuildSuspend
	// BuildFailed gives up until the user changes something.
	BuildFailed
)

// BuildState is what was seen of a build.
type BuildState struct {
	// Namespace is that of the Function.
	Namespace string
	// Job is the build's own Job, or nil.
	Job *batchv1.Job
	// Pods are the pods of Job.
	Pods []corev1.Pod
	// Jobs are all builds.
	Jobs []batchv1.Job
	// Refused is why the API server does not let the Job have a pod, or nil.
	Refused *Fault
	// MaxConcurrent is the number of builds that may run at once.
	MaxConcurrent int
	// Attempts is how often the build was tried again already, because of faults of the platform.
	Attempts int
	// Now is the time.
	Now time.Time
	// RetryAsked is the value of the Function's annotation sless.io/reconcile-at.
	RetryAsked string
}

// BuildStep is a decision with the words for the condition.
type BuildStep struct {
	Action  BuildAction
	Reason  string
	Message string
	// Round is the round in the queue of the Job to create.
	Round int
	// After is when to look again, and for BuildSuspend the pause. 0 leaves it to the watches.
	After time.Duration
}

const (
	retryBase = 10 * time.Second
	retryMax  = 10 * time.Minute
)

// retryDelay is the pause before the next attempt at a build that failed because of the platform.
func retryDelay(attempts int) time.Duration {
	if attempts > 6 {
		return retryMax
	}
	return min(retryBase<<attempts, retryMax)
}

// NextBuildStep decides what to do about a build whose image does not exist.
func NextBuildStep(state BuildState) BuildStep {
	job := state.Job
	switch {
	case job == nil:
		return BuildStep{Action: BuildCreate, Round: NextRound(state.Namespace, state.Jobs)}
	case !job.DeletionTimestamp.IsZero():
		return BuildStep{Action: BuildWait, Reason: v1alpha1.ReasonBuilding, Message: "an earlier build is being removed"}
	case jobHas(job, batchv1.JobComplete):
		// The Job succeeded but the registry has no image any more.
		return BuildStep{Action: BuildDelete}
	case jobHas(job, batchv1.JobFailed):
		return failedStep(state)
	case ptr.Deref(job.Spec.Suspend, false):
		return queuedStep(state)
	default:
		return runningStep(state)
	}
}

// retryAsked tells whether the user asks for another attempt than the one that the Job is.
func retryAsked(state BuildState) bool {
	return state.RetryAsked != "" && state.RetryAsked != state.Job.Annotations[v1alpha1.AnnotationReconcileAt]
}

func queuedStep(state BuildState) BuildStep {
	if held := resources.HeldOf(state.Job); held.Until.After(state.Now) && !retryAsked(state) {
		return BuildStep{Action: BuildHold, Reason: held.Reason, Message: held.Message, After: held.Until.Sub(state.Now)}
	}
	ahead := queueOf(state.Jobs, state.Now).ahead(state.Job)
	if ahead < state.MaxConcurrent {
		return BuildStep{Action: BuildStart}
	}
	return BuildStep{
		Action: BuildWait, Reason: v1alpha1.ReasonBuildQueued,
		Message: fmt.Sprintf("waits for a free build slot, position %d; %d builds run at once",
			ahead-state.MaxConcurrent+1, state.MaxConcurrent),
	}
}

// Finished tells whether a Job ended, in whatever way.
func Finished(job *batchv1.Job) bool {
	return jobHas(job, batchv1.JobComplete) || jobHas(job, batchv1.JobFailed)
}

func jobHas(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

func runningStep(state BuildState) BuildStep {
	pause := retryDelay(resources.HeldOf(state.Job).Times)
	if state.Refused != nil {
		return BuildStep{Action: BuildSuspend, Reason: state.Refused.Reason, After: pause,
			Message: "the build gets no pod: " + state.Refused.Message}
	}
	step := BuildStep{Action: BuildWait, Reason: v1alpha1.ReasonBuilding, Message: "the dependencies are being installed"}
	if len(state.Pods) == 0 {
		step.After = PollRefusal(state.Job, state.Now)
	}
	for i := range state.Pods {
		if message := unschedulable(&state.Pods[i]); message != "" {
			step.Reason, step.Message = v1alpha1.ReasonUnschedulable, "no node takes the pod of the build: "+message
			if waitedTooLong(state) {
				step.Action, step.After = BuildSuspend, pause
			}
		}
		for _, status := range buildSteps(&state.Pods[i]) {
			if w := status.State.Waiting; w != nil && w.Message != "" {
				step.Message = fmt.Sprintf("step %s of the build waits: %s: %s", status.Name, w.Reason, truncate(w.Message))
			}
		}
	}
	return step
}

// waitedTooLong tells whether half of a build's time went by without a node: the time is meant for the installation, so the
// Job is taken back before it runs out, which sets the clock back.
func waitedTooLong(state BuildState) bool {
	start, limit := state.Job.Status.StartTime, ptr.Deref(state.Job.Spec.ActiveDeadlineSeconds, 0)
	return start != nil && limit > 0 && state.Now.Sub(start.Time) > time.Duration(limit)*time.Second/2
}

// failedStep tells faults of the platform, which are tried again, from the user's.
func failedStep(state BuildState) BuildStep {
	if retryAsked(state) {
		return BuildStep{Action: BuildDelete}
	}
	for i := range state.Job.Status.Conditions {
		c := state.Job.Status.Conditions[i]
		if c.Type == batchv1.JobFailed && c.Reason == batchv1.JobReasonDeadlineExceeded {
			return BuildStep{Action: BuildFailed, Reason: v1alpha1.ReasonBuildTimedOut, Message: fmt.Sprintf(
				"the build took longer than %d s; raise spec.build.timeoutSeconds", ptr.Deref(state.Job.Spec.ActiveDeadlineSeconds, 0))}
		}
	}
	step := BuildStep{
		Action: BuildDelete, Reason: v1alpha1.ReasonInternalError, Message: "the pod of the build is gone; it is built again",
	}
	for i := range state.Pods {
		if found, ok := failedPod(&state.Pods[i]); ok {
			step = found
			break
		}
	}
	if step.Action != BuildDelete {
		return step
	}
	if left := retryDelay(state.Attempts) - state.Now.Sub(failedAt(state.Job)); left > 0 {
		step.Action, step.After = BuildHold, left
	}
	return step
}

// failedAt is when a Job failed for good.
func failedAt(job *batchv1.Job) time.Time {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// buildSteps returns the states of the steps in the order in which they run.
func buildSteps(pod *corev1.Pod) []corev1.ContainerStatus {
	return append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...)
}

func failedPod(pod *corev1.Pod) (BuildStep, bool) {
	for _, status := range buildSteps(pod) {
		end := status.State.Terminated
		if end == nil || end.ExitCode == 0 {
			continue
		}
		if status.Name != resources.BuildKaniko {
			reason, message := splitReason(end.Message, v1alpha1.ReasonInternalError)
			return BuildStep{Action: BuildDelete, Reason: reason, Message: "build step " + status.Name + ": " + message}, true
		}
		if end.ExitCode == exitKilled || end.Reason == reasonOOMKilled {
			return BuildStep{Action: BuildFailed, Reason: v1alpha1.ReasonBuildOutOfMemory,
				Message: "installing the dependencies took more memory than a build may use (exit code 137)"}, true
		}
		return BuildStep{Action: BuildFailed, Reason: v1alpha1.ReasonBuildFailed,
			Message: "installing the dependencies failed:\n" + buildLogTail(end.Message)}, true
	}
	return BuildStep{}, false
}

// buildLogTailLines is how much of a build's log a condition carries.
const buildLogTailLines = 15

// builderChatter matches what says nothing about the fault: kaniko's words about itself, empty lines of npm, and the place
// of a log that is gone with the pod.
var builderChatter = regexp.MustCompile(
	`^(time="[^"]*" )?level=(debug|info|warning) |^error building image: |^npm (error|ERR!)( \w+)?$|/tmp/sless-install/`)

// kubeletTail is how much of a log the kubelet puts into a termination message, in bytes. A longer log begins within a line.
const kubeletTail = 2048

// buildLogTail returns the last lines of a build's log without the builder's own chatter.
func buildLogTail(log string) string {
	if _, rest, ok := strings.Cut(log, "\n"); ok && len(log) >= kubeletTail {
		log = rest
	}
	lines := []string{}
	for line := range strings.SplitSeq(strings.TrimSpace(log), "\n") {
		if line = strings.TrimRight(line, " \r"); line != "" && !builderChatter.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-buildLogTailLines):], "\n")
}
