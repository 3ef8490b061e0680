// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestServiceOf(t *testing.T) {
	t.Parallel()
	keda := client.ObjectKey{Namespace: "keda", Name: "scaler"}
	for address, want := range map[string]client.ObjectKey{
		"scaler.keda:9090": keda, "scaler.keda": keda, "scaler.keda.svc.cluster.local.:9090": keda, "scaler.keda.svc:80": keda,
		"scaler": {}, "scaler:80": {}, "scaler.example.com:80": {}, ".keda:80": {}, "": {},
	} {
		got, ok := serviceOf(address)
		if got != want || ok != (want != client.ObjectKey{}) {
			t.Errorf("%q: %v, %v, want %v", address, got, ok, want)
		}
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
