// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
)

// scaledScope is a Function whose replicas an autoscaler sets, with a version that has run once.
func scaledScope(wanted, ready int32) *functionScope {
	s := runningScope(max(wanted, 1))
	s.scaling = plan.ScalingAuto
	s.fn.Spec.Replicas, s.fn.Spec.Scaling = nil, &v1alpha1.FunctionScaling{MaxReplicas: ptr.To[int32](3)}
	s.deployment.Spec.Replicas = &wanted
	status := &s.deployment.Status
	status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas = wanted, wanted, ready, ready
	status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
	}}
	return s
}

// troubledScope is a Function whose autoscaler has been away for a while.
func troubledScope(replicas int32, since time.Duration) *functionScope {
	s := scaledScope(replicas, replicas)
	s.away = "KEDA's operator"
	s.fn.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionScalingActive, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAutoscalerFailed,
		LastTransitionTime: metav1.NewTime(testNow.Add(-since)),
	}}
	return s
}

func TestStatusOfAFunctionThatScales(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		scope func() *functionScope
		want  string
	}{
		"idle at zero": {
			scope: func() *functionScope { return scaledScope(0, 0) },
			want:  "True/Ready True/AtZero False False Ready",
		},
		"at zero, KEDA has just stopped": {
			scope: func() *functionScope { return troubledScope(0, time.Second) },
			want:  "True/Ready True/AtZero False False Ready",
		},
		"at zero, KEDA is away": {
			scope: func() *functionScope { return troubledScope(0, time.Minute) },
			want:  "False/AutoscalerFailed True/AtZero True False Failed",
		},
		"running, KEDA is away": {
			scope: func() *functionScope { return troubledScope(2, time.Minute) },
			want:  "True/Ready True/Ready False False Ready",
		},
		"waking": {
			scope: func() *functionScope { return scaledScope(1, 0) },
			want:  "True/Ready True/Waking False False Ready",
		},
		"growing": {
			scope: func() *functionScope { return scaledScope(3, 1) },
			want:  "True/Ready True/Ready False False Ready",
		},
		"cannot wake": {
			scope: func() *functionScope {
				s := scaledScope(1, 0)
				s.pods = []corev1.Pod{failingPod("HandlerLoadFailed: handler.py line 1: boom")}
				return s
			},
			want: "False/HandlerLoadFailed False/HandlerLoadFailed False True Failed",
		},
		"a new version starts": {
			scope: func() *functionScope {
				s := scaledScope(2, 1)
				s.deployment.Status.Conditions[0].Reason = "ReplicaSetUpdated"
				return s
			},
			want: "Unknown/RollingOut True/Ready True False Pending",
		},
		"at zero, a new version is being tried": {
			scope: func() *functionScope {
				s := scaledScope(0, 0)
				s.revision = "r2"
				return s
			},
			want: "Unknown/RollingOut True/AtZero True False Pending",
		},
		"switched off": {
			scope: func() *functionScope {
				s := scaledScope(0, 0)
				s.disabled = "no Trigger is enabled"
				return s
			},
			want: "False/Disabled False/Disabled False True Disabled",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := summary(computeFunctionStatus(tc.scope(), nil, statusConfig())); got != tc.want {
				t.Errorf("status %q, want %q", got, tc.want)
			}
		})
	}
}

func TestReplicasBelongToTheAutoscaler(t *testing.T) {
	t.Parallel()
	s := scaledScope(2, 2)
	if got := wantedReplicas(s); got != nil {
		t.Errorf("sless wants %d replicas", *got)
	}
	s.disabled = "off"
	if got := wantedReplicas(s); got != nil {
		t.Errorf("sless wants %d replicas of a Function that KEDA holds at zero", *got)
	}
	s.disabled, s.scaling = "", plan.ScalingMissing
	if got := wantedReplicas(s); got == nil || *got != 1 {
		t.Errorf("without KEDA sless wants %v replicas, want 1", got)
	}
}
