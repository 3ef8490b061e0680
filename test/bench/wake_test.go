// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

func wakeMeta(function, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: naming.DeployNamespace(benchNamespace), UID: types.UID(name + "-uid"),
		Labels: map[string]string{v1alpha1.LabelFunction: function},
	}
}

func wakeReplicas(function string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: wakeMeta(function, function), Spec: appsv1.DeploymentSpec{Replicas: new(replicas)},
	}
}

func wakePod(function, name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: wakeMeta(function, name), Spec: corev1.PodSpec{NodeName: node}}
}

func TestWakeMilestones(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	after := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	got := wakeMilestones([]record{
		{at: after(1), obj: wakeReplicas("cart", 0)},
		{at: after(2), obj: wakeReplicas("other", 1)},
		{at: after(30), obj: wakeReplicas("cart", 1)},
		{at: after(35), obj: wakePod("other", "other-1", ""), added: true},
		{at: after(40), obj: wakePod("cart", "cart-1", ""), added: true},
		{at: after(50), obj: wakePod("cart", "cart-1", "node")},
		{at: after(60), obj: &corev1.Event{
			InvolvedObject: corev1.ObjectReference{UID: "cart-1-uid"}, Reason: "Unhealthy",
		}},
		{at: after(70), obj: &corev1.Event{
			InvolvedObject: corev1.ObjectReference{UID: "other-1-uid"}, Reason: "Unhealthy",
		}},
		{at: after(80), obj: &corev1.Pod{
			ObjectMeta: wakeMeta("cart", "cart-1"), Spec: corev1.PodSpec{NodeName: "node"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}},
	}, "cart")
	want := seen{pod: "cart-1", earlyProbes: 1, reached: timeline{
		wakeScaled: after(30), podMade: after(40), scheduled: after(50), podReady: after(80),
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(seen{})); diff != "" {
		t.Errorf("milestones (-want +got):\n%s", diff)
	}
	if got := wakeMilestones(nil, "cart"); len(got.reached) > 0 || got.pod != "" {
		t.Errorf("milestones of nothing: %+v", got)
	}
}

func TestWakeParts(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	after := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	w := newWakes("python3.11")
	w.add(began, seen{reached: timeline{
		wakeScaled: after(100), podMade: after(110), scheduled: after(130), started: after(600), loaded: after(700),
		podReady: after(720), endpoint: after(750), wakeAnswered: after(755),
	}})
	// The log of the second pod could not be read, so that its load counts to what follows.
	w.add(began, seen{earlyProbes: 2, reached: timeline{
		wakeScaled: after(50), scheduled: after(60), started: after(500), endpoint: after(800), wakeAnswered: after(801),
	}})
	if w.earlyProbes != 1 {
		t.Errorf("%d runs in which a probe failed, want 1", w.earlyProbes)
	}
	got := map[string][]time.Duration{}
	for name, s := range w.parts {
		for _, value := range s.values {
			got[name] = append(got[name], value/time.Millisecond)
		}
	}
	want := map[string][]time.Duration{
		"control": {100, 50}, "schedule": {30, 10}, "start": {470, 440}, "load": {100}, "notice": {50, 300}, "handler": {5, 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts in ms (-want +got):\n%s", diff)
	}
	tables := w.tables()
	if len(tables) != 2 || tables[0].block != "wake-parts-python3.11" || len(tables[0].rows) != len(wakeParts()) {
		t.Errorf("tables %+v", tables)
	}
}
