// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

// function returns the Function demo/hello with the given conditions.
func function(phase v1alpha1.FunctionPhase, conditions ...metav1.Condition) *v1alpha1.Function {
	return &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: hello.Namespace, Name: hello.Name},
		Spec:       v1alpha1.FunctionSpec{TimeoutSeconds: 7, Concurrency: 5},
		Status:     v1alpha1.FunctionStatus{Phase: phase, Conditions: conditions, Replicas: 3},
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

var (
	available   = condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	unavailable = condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonPending, "no pod runs")
	ready       = condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	loadFailed  = condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHandlerLoadFailed,
		"handler.py line 3: NameError")
	building    = condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBuilding, "the image is built")
	noPodReady  = condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonRollingOut, "no pod is ready yet")
	rollingOut  = condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonRollingOut, "starting")
	stalled     = condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonHandlerLoadFailed, "")
	reconciling = condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRollingOut, "")
)

// helloRoute is where the calls of function go.
var helloRoute = Route{Function: hello, Host: "hello.sless-fn-demo.svc:8080", Timeout: 7 * time.Second, Capacity: 15}

func unavailableBecause(reason, message string, retryAfter time.Duration) *Refusal {
	return &Refusal{
		Status: http.StatusServiceUnavailable, Reason: reason, RetryAfter: retryAfter,
		Message: "function demo/hello is not available: " + message,
	}
}

func disabledBecause(message string) *Refusal {
	return &Refusal{Status: 503, Reason: "Disabled", Message: "function demo/hello is disabled: " + message}
}

func deleting(fn *v1alpha1.Function) *v1alpha1.Function {
	fn.DeletionTimestamp = &metav1.Time{Time: testTime}
	return fn
}

func TestRouteFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fn   *v1alpha1.Function
		want *Refusal // nil means that the call is passed on
	}{
		"ready":                       {fn: function(v1alpha1.PhaseReady, available, ready)},
		"newer version failed":        {fn: function(v1alpha1.PhaseFailed, available, loadFailed, stalled)},
		"newer version is being made": {fn: function(v1alpha1.PhaseBuilding, available, building, reconciling)},
		"pods are being replaced":     {fn: function(v1alpha1.PhasePending, noPodReady, rollingOut, reconciling)},
		"pods are being replaced by a newer build": {
			fn:   function(v1alpha1.PhaseBuilding, noPodReady, building, reconciling),
			want: unavailableBecause("Building", "the image is built", buildRetryAfter),
		},
		"new": {
			fn:   function(""),
			want: unavailableBecause("Pending", "it has not been looked at yet", buildRetryAfter),
		},
		"building": {
			fn:   function(v1alpha1.PhaseBuilding, unavailable, building, reconciling),
			want: unavailableBecause("Building", "the image is built", buildRetryAfter),
		},
		"failed for good": {
			fn:   function(v1alpha1.PhaseFailed, unavailable, loadFailed, stalled),
			want: unavailableBecause("HandlerLoadFailed", "handler.py line 3: NameError", 0),
		},
		"stalled wins over the phase": {
			fn:   function(v1alpha1.PhasePending, unavailable, loadFailed, stalled),
			want: unavailableBecause("HandlerLoadFailed", "handler.py line 3: NameError", 0),
		},
		"failed, retried": {
			fn:   function(v1alpha1.PhaseFailed, loadFailed, reconciling),
			want: unavailableBecause("HandlerLoadFailed", "handler.py line 3: NameError", buildRetryAfter),
		},
		"ready but not available": {
			fn:   function(v1alpha1.PhaseReady, unavailable, ready),
			want: unavailableBecause("Pending", "no pod runs", 0),
		},
		"ready, availability unknown": {
			fn:   function(v1alpha1.PhaseReady, ready),
			want: unavailableBecause("Pending", "no version of it is running yet", 0),
		},
		"disabled": {
			fn: function(v1alpha1.PhaseDisabled, available,
				condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "Disabled", "no trigger is enabled")),
			want: disabledBecause("no trigger is enabled"),
		},
		"being deleted": {
			fn:   deleting(function(v1alpha1.PhaseReady, available, ready)),
			want: notFound("function demo/hello is being deleted"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, refusal := routeFor(tc.fn, "", usually)
			if diff := cmp.Diff(tc.want, refusal); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
			if tc.want == nil && got != helloRoute {
				t.Errorf("route = %+v, want %+v", got, helloRoute)
			}
		})
	}
}

// usually has a runtime whose replicas take less at once than those of others.
func usually(runtime string) int32 {
	if runtime == "cobol60" {
		return 7
	}
	return 100
}

func TestRouteForDefaults(t *testing.T) {
	t.Parallel()
	fn := function(v1alpha1.PhaseReady, condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, "Ready", ""))
	fn.Spec.TimeoutSeconds, fn.Spec.Concurrency = 0, 0
	fn.Spec.Runtime = "cobol60"
	got, refusal := routeFor(fn, "cluster.local", usually)
	if refusal != nil {
		t.Fatal(refusal)
	}
	want := Route{Function: hello, Host: "hello.sless-fn-demo.svc.cluster.local.:8080", Timeout: time.Minute, Capacity: 21}
	if got != want {
		t.Errorf("route = %+v, want %+v", got, want)
	}
}

func TestRouteOfAFunctionThatScales(t *testing.T) {
	t.Parallel()
	atZero := condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAtZero, "")
	through := helloRoute
	through.Scales, through.VirtualHost = true, helloVirtualHost
	held, troubled := through, through
	held.Cold, troubled.Cold, troubled.Trouble = true, true, "a part is away"
	tests := map[string]struct {
		available, scaling metav1.Condition
		want               Route
	}{
		"running": {available, condition(v1alpha1.ConditionScalingActive, metav1.ConditionTrue, v1alpha1.ReasonScaling, "fine"), through},
		"at zero": {atZero, condition(v1alpha1.ConditionScalingActive, metav1.ConditionTrue, v1alpha1.ReasonAtZero, "fine"), held},
		"at zero, KEDA is in trouble": {
			atZero, condition(v1alpha1.ConditionScalingActive, metav1.ConditionFalse, v1alpha1.ReasonAutoscalerFailed, "a part is away"),
			troubled,
		},
		"without KEDA": {
			available, condition(v1alpha1.ConditionScalingActive, metav1.ConditionFalse, v1alpha1.ReasonNoAutoscaler, "none"), helloRoute,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, refusal := routeFor(function(v1alpha1.PhaseReady, tc.available, tc.scaling), "", usually)
			if refusal != nil || got != tc.want {
				t.Errorf("route = %+v, %v, want %+v", got, refusal, tc.want)
			}
		})
	}
}
