// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/v1alpha1"
)

func startedAt(at time.Time) jobOption {
	return func(j *batchv1.Job) { j.Status.StartTime = new(metav1.NewTime(at)) }
}

func TestMayBeRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		job  *batchv1.Job
		pods []corev1.Pod
		want bool
	}{
		"no Job":        {},
		"not started":   {job: makeJob("a")},
		"no pod":        {job: makeJob("a", startedAt(epoch)), want: true},
		"pod":           {job: makeJob("a", startedAt(epoch)), pods: []corev1.Pod{{}}},
		"queued":        {job: makeJob("a", startedAt(epoch), suspended)},
		"ended":         {job: makeJob("a", startedAt(epoch), ended(batchv1.JobFailed, ""))},
		"being removed": {job: makeJob("a", startedAt(epoch), func(j *batchv1.Job) { j.DeletionTimestamp = new(metav1.Now()) })},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := MayBeRefused(tc.job, tc.pods); got != tc.want {
				t.Errorf("MayBeRefused = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	event := func(uid types.UID, reason string, at time.Duration, message string) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{UID: uid}, Reason: reason, Message: message,
			LastTimestamp: metav1.NewTime(epoch.Add(at)),
		}
	}
	const quota = `Error creating: pods "b" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1`
	// made is a pod that was made so long after the Job was started.
	made := func(at time.Duration) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(epoch.Add(at))}}
	}
	tests := map[string]struct {
		events []corev1.Event
		pods   []corev1.Pod
		want   *Fault
	}{
		"nothing said": {},
		"quota": {
			events: []corev1.Event{event("own", EventFailedCreate, time.Second, quota)},
			want: &Fault{Reason: v1alpha1.ReasonQuotaExceeded,
				Message: `pods "b" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1`},
		},
		"the newest counts": {
			events: []corev1.Event{
				event("own", EventFailedCreate, 2*time.Second, `Error creating: pods "b" is forbidden: violates PodSecurity "restricted"`),
				event("own", EventFailedCreate, time.Second, quota),
			},
			want: &Fault{Reason: v1alpha1.ReasonPodsRefused, Message: `pods "b" is forbidden: violates PodSecurity "restricted"`},
		},
		"counted as a series": {
			events: []corev1.Event{{
				InvolvedObject: corev1.ObjectReference{UID: "own"}, Reason: EventFailedCreate, Message: "no",
				Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(epoch.Add(time.Second))},
			}},
			want: &Fault{Reason: v1alpha1.ReasonPodsRefused, Message: "no"},
		},
		"before it was started again": {events: []corev1.Event{event("own", EventFailedCreate, -time.Second, quota)}},
		"of the attempt before": {
			events: []corev1.Event{event("own", EventFailedCreate, time.Minute, quota)}, pods: []corev1.Pod{made(time.Minute), made(0)},
		},
		"of the next attempt": {
			events: []corev1.Event{event("own", EventFailedCreate, time.Minute, "no")}, pods: []corev1.Pod{made(50 * time.Second), made(0)},
			want: &Fault{Reason: v1alpha1.ReasonPodsRefused, Message: "no"},
		},
		"another Job's": {events: []corev1.Event{event("other", EventFailedCreate, time.Second, quota)}},
		"another event": {events: []corev1.Event{event("own", "SuccessfulCreate", time.Second, "created")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Refusal(makeJob("own", startedAt(epoch)), tc.pods, tc.events)); diff != "" {
				t.Errorf("Refusal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPollRefusalGrows(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		job  *batchv1.Job
		now  time.Duration
		want time.Duration
	}{
		"not started": {job: makeJob("a"), want: refusalPollMin},
		"just now":    {job: makeJob("a", startedAt(epoch)), want: refusalPollMin},
		"a while ago": {job: makeJob("a", startedAt(epoch)), now: 20 * time.Second, want: 20 * time.Second},
		"an hour ago": {job: makeJob("a", startedAt(epoch)), now: time.Hour, want: refusalPollMax},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := PollRefusal(tc.job, epoch.Add(tc.now)); got != tc.want {
				t.Errorf("PollRefusal = %s, want %s", got, tc.want)
			}
		})
	}
}
