// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

func TestScalingModeOf(t *testing.T) {
	t.Parallel()
	fixed := testutil.MakeFunction("f", "n").Obj()
	scaling := testutil.MakeFunction("f", "n").Obj()
	scaling.Spec.Scaling = &v1alpha1.FunctionScaling{}
	tests := map[string]struct {
		fn        *v1alpha1.Function
		installed bool
		want      ScalingMode
	}{
		"fixed":              {fn: fixed, want: ScalingFixed},
		"fixed, with KEDA":   {fn: fixed, installed: true, want: ScalingFixed},
		"scaling, no KEDA":   {fn: scaling, want: ScalingMissing},
		"scaling, with KEDA": {fn: scaling, installed: true, want: ScalingAuto},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ScalingModeOf(tc.fn, tc.installed); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestScalingState(t *testing.T) {
	t.Parallel()
	ready := func(status, message string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Active", "status": "False"},
			map[string]any{"type": "Ready", "status": status, "message": message},
		}}}}
	}
	three := &v1alpha1.FunctionScaling{MaxReplicas: ptr.To[int32](3)}
	tests := map[string]struct {
		replicas    *int32
		scaling     *v1alpha1.FunctionScaling
		facts       ScalingFacts
		wantActive  bool
		wantReason  string
		wantMessage string
	}{
		"fixed":           {replicas: ptr.To[int32](2), wantReason: v1alpha1.ReasonFixedReplicas, wantMessage: "spec.replicas"},
		"neither":         {wantReason: v1alpha1.ReasonFixedReplicas, wantMessage: "one replica"},
		"no KEDA":         {scaling: three, facts: ScalingFacts{Mode: ScalingMissing}, wantReason: v1alpha1.ReasonNoAutoscaler, wantMessage: "not installed"},
		"disabled":        {scaling: three, facts: ScalingFacts{Mode: ScalingAuto, Disabled: true}, wantReason: v1alpha1.ReasonPaused, wantMessage: "Trigger"},
		"not made yet":    {scaling: three, facts: ScalingFacts{Mode: ScalingAuto}, wantReason: v1alpha1.ReasonPending, wantMessage: "set up"},
		"KEDA is down":    {scaling: three, facts: ScalingFacts{Mode: ScalingAuto, ScaledObject: &unstructured.Unstructured{}}, wantReason: v1alpha1.ReasonPending, wantMessage: "operator"},
		"a part is away":  {scaling: three, facts: ScalingFacts{Mode: ScalingAuto, Away: "KEDA's operator", ScaledObject: ready("True", "")}, wantReason: v1alpha1.ReasonAutoscalerFailed, wantMessage: "KEDA's operator"},
		"KEDA is unhappy": {scaling: three, facts: ScalingFacts{Mode: ScalingAuto, ScaledObject: ready("False", "no scaler")}, wantReason: v1alpha1.ReasonAutoscalerFailed, wantMessage: "no scaler"},
		"at zero":         {scaling: three, facts: ScalingFacts{Mode: ScalingAuto, ScaledObject: ready("True", "")}, wantActive: true, wantReason: v1alpha1.ReasonAtZero, wantMessage: "wakes"},
		"between":         {scaling: three, facts: ScalingFacts{Mode: ScalingAuto, ScaledObject: ready("True", ""), Replicas: 2}, wantActive: true, wantReason: v1alpha1.ReasonScaling},
		"at its most":     {scaling: three, facts: ScalingFacts{Mode: ScalingAuto, ScaledObject: ready("True", ""), Replicas: 3}, wantActive: true, wantReason: v1alpha1.ReasonAtMaxReplicas, wantMessage: "3"},
		"default maximum": {scaling: &v1alpha1.FunctionScaling{}, facts: ScalingFacts{Mode: ScalingAuto, ScaledObject: ready("True", ""), Replicas: 10}, wantActive: true, wantReason: v1alpha1.ReasonAtMaxReplicas, wantMessage: "10"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := testutil.MakeFunction("f", "n").Obj()
			fn.Spec.Replicas, fn.Spec.Scaling = tc.replicas, tc.scaling
			active, reason, message := ScalingState(fn, tc.facts)
			if active != tc.wantActive || reason != tc.wantReason || !strings.Contains(message, tc.wantMessage) || message == "" {
				t.Errorf("got %v, %s, %q, want %v, %s, %q", active, reason, message, tc.wantActive, tc.wantReason, tc.wantMessage)
			}
		})
	}
}

func TestCannotWake(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		status  metav1.ConditionStatus
		reason  string
		age     time.Duration
		wantWhy string
		wantIn  time.Duration
	}{
		"at work":       {status: metav1.ConditionTrue, reason: v1alpha1.ReasonAtZero, age: time.Hour},
		"paused":        {status: metav1.ConditionFalse, reason: v1alpha1.ReasonPaused, age: time.Hour},
		"in trouble":    {status: metav1.ConditionFalse, reason: v1alpha1.ReasonAutoscalerFailed, age: 10 * time.Second, wantWhy: "boom"},
		"only a moment": {status: metav1.ConditionFalse, reason: v1alpha1.ReasonAutoscalerFailed, age: 4 * time.Second, wantIn: 6 * time.Second},
		"not looked at": {},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conditions := []metav1.Condition{{
				Type: v1alpha1.ConditionScalingActive, Status: tc.status, Reason: tc.reason, Message: "boom",
				LastTransitionTime: metav1.NewTime(now.Add(-tc.age)),
			}}
			if why, in := CannotWake(conditions, now); why != tc.wantWhy || in != tc.wantIn {
				t.Errorf("got %q, %s, want %q, %s", why, in, tc.wantWhy, tc.wantIn)
			}
		})
	}
}
