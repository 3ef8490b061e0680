// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

func deploymentWith(revision string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRevision: revision}},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

func failedCheck(message string) corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name:  resources.ContainerName,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message}},
	}}}}
}

func waitingPod(reason, message string) corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: resources.ContainerName, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}}
}

func TestNextPreflight(t *testing.T) {
	t.Parallel()
	const revision = "new"
	failedJob := makeJob("p", ended(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded))
	running := makeJob("p", func(j *batchv1.Job) { j.Status.StartTime = new(metav1.NewTime(epoch)) })
	zero, one := ptr.To[int32](0), ptr.To[int32](1)
	pass, create := PreflightStep{Action: PreflightPass}, PreflightStep{Action: PreflightCreate}
	unloadable := &Fault{Reason: v1alpha1.ReasonHandlerLoadFailed, Message: "handler.py line 3: boom", User: true}
	gone := &Fault{
		Reason: v1alpha1.ReasonInternalError, Message: "the pod that tried the new version is gone; it is tried again",
	}
	tests := map[string]struct {
		state PreflightState
		want  PreflightStep
	}{
		"the Deployment has it already": {
			state: PreflightState{Replicas: zero, Deployment: deploymentWith(revision, 0)}, want: pass,
		},
		"replicas run":                 {state: PreflightState{Replicas: one, Deployment: deploymentWith("old", 1)}, want: pass},
		"first version, with replicas": {state: PreflightState{Replicas: one}, want: pass},
		"first version, without":       {state: PreflightState{Replicas: zero}, want: create},
		"first version, autoscaled":    {state: PreflightState{}, want: pass},
		"stopped by the user":          {state: PreflightState{Replicas: zero, Deployment: deploymentWith("old", 0)}, want: create},
		"being stopped by the user":    {state: PreflightState{Replicas: zero, Deployment: deploymentWith("old", 3)}, want: create},
		"scaled to zero":               {state: PreflightState{Deployment: deploymentWith("old", 0)}, want: create},
		"scaled to two":                {state: PreflightState{Deployment: deploymentWith("old", 2)}, want: pass},
		"proven": {
			state: PreflightState{Deployment: deploymentWith("old", 0), Job: makeJob("p", ended(batchv1.JobComplete, ""))},
			want:  pass,
		},
		"being removed": {
			state: PreflightState{Replicas: zero, Job: makeJob("p", func(j *batchv1.Job) { j.DeletionTimestamp = new(metav1.NewTime(epoch)) })},
			want:  PreflightStep{Action: PreflightWait},
		},
		"under way": {
			state: PreflightState{Replicas: zero, Job: running, Pods: []corev1.Pod{{}}}, want: PreflightStep{Action: PreflightWait},
		},
		"without a pod yet": {
			state: PreflightState{Replicas: zero, Job: running, Now: epoch.Add(5 * time.Second)},
			want:  PreflightStep{Action: PreflightWait, After: 5 * time.Second},
		},
		"refused a pod": {
			state: PreflightState{Replicas: zero, Job: running, Refused: &Fault{Reason: v1alpha1.ReasonQuotaExceeded}},
			want: PreflightStep{
				Action: PreflightWait, After: refusalPollMax, Fault: &Fault{Reason: v1alpha1.ReasonQuotaExceeded},
			},
		},
		"image cannot be pulled": {
			state: PreflightState{Replicas: zero, Job: running, Pods: []corev1.Pod{waitingPod("ImagePullBackOff", "no such image")}},
			want: PreflightStep{
				Action: PreflightWait, Fault: &Fault{Reason: v1alpha1.ReasonImagePullFailed, Message: "no such image"},
			},
		},
		"cannot be loaded": {
			state: PreflightState{Replicas: zero, Job: failedJob,
				Pods: []corev1.Pod{failedCheck("HandlerLoadFailed: handler.py line 3: boom")}},
			want: PreflightStep{Action: PreflightFailed, Fault: unloadable},
		},
		"cannot be loaded, and replicas run meanwhile": {
			state: PreflightState{Deployment: deploymentWith("old", 2), Job: failedJob,
				Pods: []corev1.Pod{failedCheck("HandlerLoadFailed: handler.py line 3: boom")}},
			want: PreflightStep{Action: PreflightFailed, Fault: unloadable},
		},
		"cannot be loaded, first version, and the user wants replicas": {
			state: PreflightState{Replicas: one, Job: failedJob}, want: pass,
		},
		"the user asks again": {
			state: PreflightState{Replicas: zero, Job: failedJob, RetryAsked: "now",
				Pods: []corev1.Pod{failedCheck("HandlerLoadFailed: no")}},
			want: PreflightStep{Action: PreflightDelete},
		},
		"interrupted by the node": {
			state: PreflightState{Replicas: zero, Job: failedJob, Pods: []corev1.Pod{failedCheck("Interrupted: told to stop")}},
			want:  PreflightStep{Action: PreflightDelete, Fault: gone},
		},
		"pod gone a moment ago": {
			state: PreflightState{Replicas: zero, Job: failedJob, Now: epoch.Add(time.Second)},
			want:  PreflightStep{Action: PreflightHold, Fault: gone, After: retryBase - time.Second},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.state.Revision = revision
			if tc.state.Now.IsZero() {
				tc.state.Now = epoch.Add(retryMax)
			}
			if diff := cmp.Diff(tc.want, NextPreflight(tc.state)); diff != "" {
				t.Errorf("NextPreflight (-want +got):\n%s", diff)
			}
		})
	}
}
