// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/testutil"
)

var testNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func statusConfig() *config.Config {
	return &config.Config{Gateway: config.Gateway{ExternalURL: "https://fn.example.com/"}}
}

// runningScope is a pass over a Function whose wanted version runs with n replicas.
func runningScope(n int32) *functionScope {
	s := newFunctionScope(testutil.MakeFunction("cart", "shop").UID("u").Generation(4).Obj(), testNow)
	s.code = &codeArchive{digest: "sha256:c0de"}
	s.image, s.revision = "registry/sless-shop-cart@sha256:1", "r1"
	s.deployment = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Generation: 1, Labels: map[string]string{v1alpha1.LabelRevision: "r1"},
	}}
	s.fn.Spec.Replicas, s.deployment.Spec.Replicas = new(n), new(n)
	s.deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: 1, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
	}
	for _, c := range []string{v1alpha1.ConditionSourceReady, v1alpha1.ConditionCodeReviewed, v1alpha1.ConditionBuilt} {
		s.succeed(c, v1alpha1.ReasonSucceeded, "")
	}
	return s
}

// disabledScope is a pass over a Function that its Triggers switch off.
func disabledScope(n int32) *functionScope {
	s := runningScope(n)
	s.disabled = "no Trigger of this Function is enabled: web"
	return s
}

// failingPod is a pod of revision r1 that ended with the message.
func failingPod(message string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRevision: "r1"}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "function", LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message},
	}}}
	return pod
}

func TestComputeFunctionStatus(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		scope func() *functionScope
		fault error
		// want is "Ready Available Reconciling Stalled Phase", each condition as Status/Reason.
		want string
	}{
		"runs": {
			scope: func() *functionScope { return runningScope(2) },
			want:  "True/Ready True/Ready False False Ready",
		},
		"nothing runs yet": {
			scope: func() *functionScope {
				s := runningScope(1)
				s.deployment = nil
				return s
			},
			want: "Unknown/RollingOut False/Pending True False Pending",
		},
		"an older version runs while the new one starts": {
			scope: func() *functionScope {
				s := runningScope(1)
				s.revision = "r2"
				return s
			},
			want: "Unknown/RollingOut True/Ready True False Pending",
		},
		"the new version does not load, the old one answers": {
			scope: func() *functionScope {
				s := runningScope(1)
				s.deployment.Status.Replicas = 2
				s.pods = []corev1.Pod{failingPod("HandlerLoadFailed: handler.py line 1: boom")}
				return s
			},
			want: "False/HandlerLoadFailed True/Ready False True Failed",
		},
		"the only version crashes": {
			scope: func() *functionScope {
				s := runningScope(1)
				s.deployment.Status.ReadyReplicas, s.deployment.Status.AvailableReplicas = 0, 0
				s.pods = []corev1.Pod{failingPod("")}
				return s
			},
			want: "False/HandlerCrashed False/HandlerCrashed False True Failed",
		},
		"a quota holds the pods back": {
			scope: func() *functionScope {
				s := runningScope(1)
				s.deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{{
					Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota",
				}}}
				return s
			},
			want: "False/QuotaExceeded False/RollingOut True False Failed",
		},
		"scaled to zero by the user": {
			scope: func() *functionScope { return runningScope(0) },
			want:  "False/ScaledToZero False/ScaledToZero False True Disabled",
		},
		"more replicas were asked for in this very pass": {
			scope: func() *functionScope {
				s := runningScope(1)
				s.fn.Spec.Replicas = new(int32(2))
				return s
			},
			want: "Unknown/RollingOut True/Ready True False Pending",
		},
		"builds while the old version answers": {
			scope: func() *functionScope { return runningScope(1) },
			fault: waiting(v1alpha1.ConditionBuilt, v1alpha1.ReasonBuilding, "installing"),
			want:  "Unknown/Building True/Ready True False Building",
		},
		"waits in the queue": {
			scope: func() *functionScope { return runningScope(1) },
			fault: waiting(v1alpha1.ConditionBuilt, v1alpha1.ReasonBuildQueued, "position 2"),
			want:  "Unknown/BuildQueued True/Ready True False Building",
		},
		"waits for an upload": {
			scope: func() *functionScope { return runningScope(1) },
			fault: waiting(v1alpha1.ConditionSourceReady, v1alpha1.ReasonWaitingForUpload, "upload"),
			want:  "Unknown/WaitingForUpload True/Ready True False Pending",
		},
		"the user must mend it": {
			scope: func() *functionScope { return runningScope(1) },
			fault: stalled(v1alpha1.ConditionBuilt, v1alpha1.ReasonBuildFailed, "npm error"),
			want:  "False/BuildFailed True/Ready False True Failed",
		},
		"the platform is at fault": {
			scope: func() *functionScope { return runningScope(1) },
			fault: platform(v1alpha1.ConditionBuilt, v1alpha1.ReasonRegistryUnavailable, "no answer", errors.New("dial")),
			want:  "False/RegistryUnavailable True/Ready True False Failed",
		},
		"switched off, pods still there": {
			scope: func() *functionScope { return disabledScope(1) },
			want:  "False/Disabled True/Ready False True Disabled",
		},
		"switched off": {
			scope: func() *functionScope { return disabledScope(0) },
			want:  "False/Disabled False/Disabled False True Disabled",
		},
		"switched off while it is built": {
			scope: func() *functionScope { return disabledScope(1) },
			fault: waiting(v1alpha1.ConditionBuilt, v1alpha1.ReasonBuilding, "npm ci"),
			want:  "False/Disabled True/Ready True False Disabled",
		},
		"switched off, and the build failed": {
			scope: func() *functionScope { return disabledScope(0) },
			fault: stalled(v1alpha1.ConditionBuilt, v1alpha1.ReasonBuildFailed, "npm error"),
			want:  "False/Disabled False/Disabled False True Disabled",
		},
		"something nobody thought of": {
			scope: func() *functionScope { return runningScope(1) },
			fault: errors.New("surprise"),
			want:  "False/InternalError True/Ready True False Failed",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := computeFunctionStatus(tc.scope(), asPhaseError(tc.fault), statusConfig())
			if got := summary(status); got != tc.want {
				t.Errorf("status is %q, want %q", got, tc.want)
			}
			for _, c := range status.Conditions {
				if c.ObservedGeneration != 4 || c.Reason == "" {
					t.Errorf("condition %s has generation %d, reason %q", c.Type, c.ObservedGeneration, c.Reason)
				}
			}
			if len(status.Conditions) != 8 {
				t.Errorf("%d conditions are set, want all 8", len(status.Conditions))
			}
		})
	}
}

// Of a Function that is switched off, Reconciling and Stalled tell what else is the matter, and say Disabled when nothing is:
// by that a FunctionJob knows whether the image in the status is the one of the spec.
func TestWhatElseIsTheMatter(t *testing.T) {
	t.Parallel()
	for want, fault := range map[string]error{
		"False/Disabled True/Disabled":       nil,
		"True/Building False/Building":       waiting(v1alpha1.ConditionBuilt, v1alpha1.ReasonBuilding, "npm ci"),
		"False/BuildFailed True/BuildFailed": stalled(v1alpha1.ConditionBuilt, v1alpha1.ReasonBuildFailed, "npm error"),
	} {
		status := computeFunctionStatus(disabledScope(0), asPhaseError(fault), statusConfig())
		reconciling := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReconciling)
		stuck := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
		got := string(reconciling.Status) + "/" + reconciling.Reason + " " + string(stuck.Status) + "/" + stuck.Reason
		if got != want {
			t.Errorf("Reconciling and Stalled are %q, want %q", got, want)
		}
	}
}

func summary(status v1alpha1.FunctionStatus) string {
	words := []string{}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAvailable} {
		c := meta.FindStatusCondition(status.Conditions, kind)
		words = append(words, string(c.Status)+"/"+c.Reason)
	}
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		words = append(words, string(meta.FindStatusCondition(status.Conditions, kind).Status))
	}
	return strings.Join(append(words, string(status.Phase)), " ")
}

// A cause that the pass did not come to is Unknown, never left over from an earlier pass.
func TestCausesFollowThePass(t *testing.T) {
	t.Parallel()
	s := runningScope(1)
	delete(s.done, v1alpha1.ConditionBuilt)
	delete(s.done, v1alpha1.ConditionCodeReviewed)
	fault := asPhaseError(platform(v1alpha1.ConditionCodeReviewed, v1alpha1.ReasonInternalError, "x", nil))
	got := map[string]metav1.ConditionStatus{}
	for _, c := range computeFunctionStatus(s, fault, statusConfig()).Conditions {
		got[c.Type] = c.Status
	}
	want := map[string]metav1.ConditionStatus{
		"SourceReady": "True", "CodeReviewed": "False", "Built": "Unknown", "Available": "True", "ScalingActive": "False",
		"Ready": "False", "Reconciling": "True", "Stalled": "False",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestStatusIsStable(t *testing.T) {
	t.Parallel()
	s := runningScope(1)
	s.fn.Status = computeFunctionStatus(s, nil, statusConfig())
	later := runningScope(1)
	later.fn.Status = *s.fn.Status.DeepCopy()
	later.now = testNow.Add(time.Hour)
	if diff := cmp.Diff(s.fn.Status, computeFunctionStatus(later, nil, statusConfig())); diff != "" {
		t.Errorf("a second look changes the status (-first +second):\n%s", diff)
	}
	if got, want := s.fn.Status.URL, "https://fn.example.com/fn/shop/cart"; got != want {
		t.Errorf("url is %q, want %q", got, want)
	}
}

func TestRecordImage(t *testing.T) {
	t.Parallel()
	status := v1alpha1.FunctionStatus{}
	for i := range v1alpha1.MaxHistory + 3 {
		s := runningScope(1)
		s.image = "image-" + string(rune('a'+i))
		recordImage(&status, s)
	}
	if len(status.History) != v1alpha1.MaxHistory || status.History[0].Image != "image-m" || status.Image != "image-m" {
		t.Errorf("history has %d entries, the newest is %q", len(status.History), status.History[0].Image)
	}
	s := runningScope(1)
	s.image = "image-k"
	recordImage(&status, s)
	if len(status.History) != v1alpha1.MaxHistory || status.History[0].Image != "image-k" {
		t.Errorf("going back gives %d entries, the newest is %q", len(status.History), status.History[0].Image)
	}
	for _, old := range status.History[1:] {
		if old.Image == "image-k" {
			t.Error("an image that is used again is listed twice")
		}
	}
	s.image = ""
	recordImage(&status, s)
	if status.Image != "image-k" {
		t.Error("a pass that did not come to the image forgot the last one")
	}
}

func TestWantedReplicas(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fn       *testutil.FunctionWrapper
		disabled string
		want     int32
	}{
		"neither":                  {fn: testutil.MakeFunction("f", "n"), want: 1},
		"fixed":                    {fn: testutil.MakeFunction("f", "n").Replicas(3), want: 3},
		"fixed at zero":            {fn: testutil.MakeFunction("f", "n").Replicas(0), want: 0},
		"scaling from zero":        {fn: testutil.MakeFunction("f", "n").Scaling(0, 5), want: 1},
		"scaling from two":         {fn: testutil.MakeFunction("f", "n").Scaling(2, 5), want: 2},
		"fixed and switched off":   {fn: testutil.MakeFunction("f", "n").Replicas(3), disabled: "off", want: 0},
		"scaling and switched off": {fn: testutil.MakeFunction("f", "n").Scaling(2, 5), disabled: "off", want: 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFunctionScope(tc.fn.Obj(), testNow)
			s.disabled = tc.disabled
			if got := wantedReplicas(s); *got != tc.want {
				t.Errorf("wantedReplicas = %d, want %d", *got, tc.want)
			}
		})
	}
}
