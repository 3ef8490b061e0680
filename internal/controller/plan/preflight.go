// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

// PreflightAction is what to do before the Deployment takes a new version over.
type PreflightAction int

const (
	// PreflightPass lets the Deployment take the version: it was proven, or the rolling update proves it.
	PreflightPass PreflightAction = iota
	// PreflightCreate creates the Job that loads the handler.
	PreflightCreate
	// PreflightWait leaves the Job alone.
	PreflightWait
	// PreflightDelete removes the Job so that the version is tried again.
	PreflightDelete
	// PreflightHold keeps a failed Job until it is time to try again.
	PreflightHold
	// PreflightFailed gives up until the user changes something.
	PreflightFailed
)

// PreflightState is what was seen of a new version and of the one that runs.
type PreflightState struct {
	// Replicas is the number that the Deployment is to get, nil when an autoscaler owns it.
	Replicas *int32
	// Deployment is the Function's own, or nil.
	Deployment *appsv1.Deployment
	// Revision is that of the new version's pods.
	Revision string
	// Job is the preflight of Revision, or nil, and Pods are its pods.
	Job  *batchv1.Job
	Pods []corev1.Pod
	// Refused is why the API server does not let the Job have a pod, or nil.
	Refused *Fault
	// Attempts is how often it was tried again already, because of faults of the platform.
	Attempts int
	// Now is the time.
	Now time.Time
	// RetryAsked is the value of the Function's annotation sless.io/reconcile-at.
	RetryAsked string
}

// PreflightStep is a decision. Fault is what went wrong, nil when nothing did.
type PreflightStep struct {
	Action PreflightAction
	Fault  *Fault
	// After is when to look again. 0 leaves it to the watches.
	After time.Duration
}

// interrupted is the watchdog's word for a check that was told to stop, which says nothing about the handler.
const interrupted = "Interrupted"

// NextPreflight decides whether the Deployment may take a version over. With running replicas the rolling update is the
// proof, since the old pods stay until the new ones have loaded the handler. Without any, the version must have been
// loaded once before. That the Deployment has a revision is how it is remembered that the revision was proven. One that has
// failed is not let in when replicas run meanwhile: the next time that they are all taken away it would be all there is.
func NextPreflight(state PreflightState) PreflightStep {
	job := state.Job
	switch {
	case state.Deployment != nil && state.Deployment.Labels[v1alpha1.LabelRevision] == state.Revision:
		return PreflightStep{Action: PreflightPass}
	case state.Deployment == nil && ptr.Deref(state.Replicas, 0) > 0:
		// There is no old version to keep.
		return PreflightStep{Action: PreflightPass}
	case job == nil && runsNone(state):
		return PreflightStep{Action: PreflightCreate}
	case job == nil:
		return PreflightStep{Action: PreflightPass}
	case !job.DeletionTimestamp.IsZero():
		return PreflightStep{Action: PreflightWait}
	case jobHas(job, batchv1.JobComplete):
		return PreflightStep{Action: PreflightPass}
	case jobHas(job, batchv1.JobFailed):
		return failedPreflight(state)
	default:
		return runningPreflight(state)
	}
}

// runsNone tells whether the Deployment has no replicas, or will have none.
func runsNone(state PreflightState) bool {
	switch {
	case state.Replicas != nil:
		return *state.Replicas == 0
	case state.Deployment != nil:
		return ptr.Deref(state.Deployment.Spec.Replicas, 1) == 0
	default:
		return true
	}
}

func failedPreflight(state PreflightState) PreflightStep {
	if state.RetryAsked != "" && state.RetryAsked != state.Job.Annotations[v1alpha1.AnnotationReconcileAt] {
		return PreflightStep{Action: PreflightDelete}
	}
	for i := range state.Pods {
		for _, status := range state.Pods[i].Status.ContainerStatuses {
			end := status.State.Terminated
			if status.Name != resources.ContainerName || end == nil || end.ExitCode == 0 {
				continue
			}
			if reason, _ := splitReason(end.Message, ""); reason != interrupted {
				return PreflightStep{Action: PreflightFailed, Fault: endFault(end)}
			}
		}
	}
	step := PreflightStep{Action: PreflightDelete, Fault: &Fault{
		Reason: v1alpha1.ReasonInternalError, Message: "the pod that tried the new version is gone; it is tried again",
	}}
	if left := retryDelay(state.Attempts) - state.Now.Sub(failedAt(state.Job)); left > 0 {
		step.Action, step.After = PreflightHold, left
	}
	return step
}

func runningPreflight(state PreflightState) PreflightStep {
	for i := range state.Pods {
		if fault := startFault(&state.Pods[i]); fault != nil {
			return PreflightStep{Action: PreflightWait, Fault: fault}
		}
	}
	step := PreflightStep{Action: PreflightWait, Fault: state.Refused}
	if len(state.Pods) == 0 {
		step.After = PollRefusal(state.Job, state.Now)
	}
	return step
}

// startFault is why the pod of a preflight does not come up, or nil.
func startFault(pod *corev1.Pod) *Fault {
	if !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	if message := unschedulable(pod); message != "" {
		return &Fault{Reason: v1alpha1.ReasonUnschedulable, Message: "no node takes the pod: " + message}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Waiting != nil && status.Name == resources.ContainerName {
			return containerFault(status)
		}
	}
	return nil
}
