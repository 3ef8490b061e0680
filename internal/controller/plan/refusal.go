// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
)

// EventFailedCreate is the reason of the events that tell of pods which the API server refuses.
const EventFailedCreate = "FailedCreate"

const (
	refusalPollMin = time.Second
	refusalPollMax = time.Minute
)

// MayBeRefused tells whether a Job should have a pod and has none.
func MayBeRefused(job *batchv1.Job, pods []corev1.Pod) bool {
	return job != nil && len(pods) == 0 && job.DeletionTimestamp.IsZero() && !Finished(job) &&
		!ptr.Deref(job.Spec.Suspend, false) && job.Status.StartTime != nil
}

// Refusal returns why the API server refuses the pods of a Job, from the Job's events, or nil. What was said before the
// Job was last started, or before the newest of its pods was made, is old.
func Refusal(job *batchv1.Job, pods []corev1.Pod, events []corev1.Event) *Fault {
	since := job.Status.StartTime.Time
	for i := range pods {
		// Times have whole seconds, and the pod was refused until the very second in which it was made.
		if made := pods[i].CreationTimestamp.Add(time.Second); made.After(since) {
			since = made
		}
	}
	var newest *corev1.Event
	for i := range events {
		event := &events[i]
		if event.Reason != EventFailedCreate || event.InvolvedObject.UID != job.UID ||
			eventTime(event).Before(since) {
			continue
		}
		if newest == nil || eventTime(newest).Before(eventTime(event)) {
			newest = event
		}
	}
	if newest == nil {
		return nil
	}
	return refusedPods(newest.Message)
}

// eventTime is when an event was seen last. Both APIs for events are in use.
func eventTime(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	default:
		return event.EventTime.Time
	}
}

// refusedPods tells a used-up quota from the other reasons for which pods are refused.
func refusedPods(message string) *Fault {
	reason := v1alpha1.ReasonPodsRefused
	if strings.Contains(message, "exceeded quota") {
		reason = v1alpha1.ReasonQuotaExceeded
	}
	message = strings.TrimPrefix(message, "(combined from similar events): ")
	return &Fault{Reason: reason, Message: truncate(strings.TrimPrefix(message, "Error creating: "))}
}

// PollRefusal is when to look again at a Job that has no pod: no watch tells of events. The pause grows with the time that
// the Job has waited.
func PollRefusal(job *batchv1.Job, now time.Time) time.Duration {
	if job.Status.StartTime == nil {
		return refusalPollMin
	}
	return min(max(now.Sub(job.Status.StartTime.Time), refusalPollMin), refusalPollMax)
}
