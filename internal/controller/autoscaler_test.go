// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/naeel/sless/internal/config"
)

// TestAnAutoscalerOutsideTheClusterIsNotJudged has addresses that name no Service.
func TestAnAutoscalerOutsideTheClusterIsNotJudged(t *testing.T) {
	t.Parallel()
	outside := config.Scaling{Interceptor: "keda.example.com:80", Scaler: "10.0.0.1:9090", Operator: "keda"}
	parts := autoscalerParts(outside)
	if len(parts) > 0 {
		t.Fatalf("parts %v", parts)
	}
	endpoints, err := newPartsCache(nil, parts)
	if endpoints != nil || err != nil {
		t.Errorf("there is a cache, %v", err)
	}
	if away, err := (&autoscaler{parts: parts, endpoints: endpoints}).Away(t.Context()); away != "" || err != nil {
		t.Errorf("%q is away, %v", away, err)
	}
	outside.Operator = "keda-operator.keda"
	want := []autoscalerPart{{"KEDA's operator", client.ObjectKey{Namespace: "keda", Name: "keda-operator"}}}
	if got := autoscalerParts(outside); !slices.Equal(got, want) {
		t.Errorf("parts %v, want %v", got, want)
	}
}

// TestWhatKedaWritesWhileThereAreCallsIsNoNews has the updates that a busy function gets every second.
func TestWhatKedaWritesWhileThereAreCallsIsNoNews(t *testing.T) {
	t.Parallel()
	scaledObject := func(ready, lastActive string) *unstructured.Unstructured {
		obj := newScaledObject()
		obj.Object["status"] = map[string]any{
			"lastActiveTime": lastActive, "conditions": []any{map[string]any{"type": "Ready", "status": ready}},
		}
		return obj
	}
	old := scaledObject("True", "2026-01-01T12:00:00Z")
	paused := old.DeepCopy()
	paused.SetAnnotations(map[string]string{"a": "b"})
	changed := old.DeepCopy()
	changed.SetGeneration(2)
	for name, tc := range map[string]struct {
		updated *unstructured.Unstructured
		want    bool
	}{
		"a call":            {updated: scaledObject("True", "2026-01-01T12:00:01Z")},
		"KEDA is unhappy":   {updated: scaledObject("False", "2026-01-01T12:00:00Z"), want: true},
		"other annotations": {updated: paused, want: true},
		"another spec":      {updated: changed, want: true},
	} {
		if got := autoscalerChanged().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: tc.updated}); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
