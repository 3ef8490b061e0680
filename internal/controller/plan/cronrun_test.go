// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLastCronRun(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	job := func(name string, kind batchv1.JobConditionType, minute int, reason, message string) batchv1.Job {
		j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if kind != "" {
			j.Status.Conditions = []batchv1.JobCondition{
				{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue},
				{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message,
					LastTransitionTime: metav1.NewTime(start.Add(time.Duration(minute) * time.Minute))},
			}
		}
		return j
	}
	pod := func(job string, state corev1.ContainerState) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{batchv1.JobNameLabel: job}},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state}}},
		}
	}
	ended := func(code int32, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: message}}
	}
	tests := map[string]struct {
		jobs []batchv1.Job
		pods []corev1.Pod
		want *CronRun
	}{
		"none":          {},
		"one goes on":   {jobs: []batchv1.Job{job("a", "", 0, "", "")}},
		"one succeeded": {jobs: []batchv1.Job{job("a", batchv1.JobComplete, 0, "", "")}, want: &CronRun{Job: "a"}},
		"the last one counts, not the last in the list": {
			jobs: []batchv1.Job{job("b", batchv1.JobComplete, 2, "", ""), job("a", batchv1.JobFailed, 1, "", ""), job("c", "", 0, "", "")},
			want: &CronRun{Job: "b"},
		},
		"two ended in the same second": {
			jobs: []batchv1.Job{job("b", batchv1.JobComplete, 1, "", ""), job("a", batchv1.JobFailed, 1, "", "")},
			want: &CronRun{Job: "b"},
		},
		"the pod says why": {
			jobs: []batchv1.Job{job("a", batchv1.JobFailed, 1, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")},
			pods: []corev1.Pod{pod("other", ended(1, "no")), pod("a", ended(1, "CallFailed: the answer was 500"))},
			want: &CronRun{Job: "a", Failed: true, Message: "CallFailed: the answer was 500"},
		},
		"the pod was killed": {
			jobs: []batchv1.Job{job("a", batchv1.JobFailed, 1, "", "x")}, pods: []corev1.Pod{pod("a", ended(137, ""))},
			want: &CronRun{Job: "a", Failed: true, Message: "the call ended with exit code 137 (Error)"},
		},
		"the image could not be pulled": {
			jobs: []batchv1.Job{job("a", batchv1.JobFailed, 1, batchv1.JobReasonDeadlineExceeded, "x")},
			pods: []corev1.Pod{pod("a", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}})},
			want: &CronRun{Job: "a", Failed: true, Message: "ErrImagePull: not found"},
		},
		"the deadline passed and the pod is gone": {
			jobs: []batchv1.Job{job("a", batchv1.JobFailed, 1, batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")},
			want: &CronRun{Job: "a", Failed: true, Message: "the call did not end in time", Unseen: true},
		},
		"nobody knows why": {
			jobs: []batchv1.Job{job("a", batchv1.JobFailed, 1, "Other", "something")}, want: &CronRun{Job: "a", Failed: true, Message: "something", Unseen: true},
		},
		"the end of the pod is not known yet": {
			jobs: []batchv1.Job{job("a", batchv1.JobFailed, 1, "Other", "something")},
			pods: []corev1.Pod{pod("a", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})},
			want: &CronRun{Job: "a", Failed: true, Message: "something", Unseen: true},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, LastCronRun(tc.jobs, tc.pods)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
