// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

func originalDeployment() *appsv1.Deployment {
	labels := map[string]string{"sless.io/function": "cart"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: "cart", Namespace: "deploy", UID: "uid-1", ResourceVersion: "7", Labels: labels,
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "function", Image: "image@sha256:1"}},
					Volumes:    []corev1.Volume{{Name: "tmp"}, {Name: "keys"}},
				},
			},
		},
	}
}

func TestWakeDeployment(t *testing.T) {
	t.Parallel()
	original := originalDeployment()
	before := original.DeepCopy()
	d, err := wakeDeployment(original, "copy", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, original); diff != "" {
		t.Errorf("the original changed (-before +after):\n%s", diff)
	}
	want := map[string]string{wakeLabel: "copy"}
	for what, got := range map[string]map[string]string{
		"Deployment": d.Labels, "selector": d.Spec.Selector.MatchLabels, "pods": d.Spec.Template.Labels,
	} {
		// A label of sless would make it take the copy for a function of its own.
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("labels of %s (-want +got):\n%s", what, diff)
		}
	}
	if *d.Spec.Replicas != 0 || d.UID != "" || d.ResourceVersion != "" || d.Namespace != "deploy" {
		t.Errorf("the copy is %+v with %d replicas", d.ObjectMeta, *d.Spec.Replicas)
	}
}

func TestWakeDeploymentPatch(t *testing.T) {
	t.Parallel()
	patch := `{"spec":{"template":{"spec":{"volumes":[{"$patch":"delete","name":"tmp"}]}}}}`
	d, err := wakeDeployment(originalDeployment(), "copy", []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	if volumes := d.Spec.Template.Spec.Volumes; len(volumes) != 1 || volumes[0].Name != "keys" {
		t.Errorf("volumes %v, want the one that the patch leaves", volumes)
	}
	if _, err := wakeDeployment(originalDeployment(), "copy", []byte("{")); err == nil {
		t.Error("a patch that is no JSON is taken")
	}
}

// TestWakeObjectsFit: the objects of one function have to lead to each other.
func TestWakeObjectsFit(t *testing.T) {
	t.Parallel()
	d, err := wakeDeployment(originalDeployment(), "copy", nil)
	if err != nil {
		t.Fatal(err)
	}
	service, route, scaledObject := wakeService(d), wakeRoute(d), wakeScaledObject(d)
	text := func(obj *unstructured.Unstructured, path ...string) string {
		value, _, err := unstructured.NestedString(obj.Object, path...)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	if diff := cmp.Diff(d.Spec.Template.Labels, service.Spec.Selector); diff != "" {
		t.Errorf("the Service selects other pods (-pods +selector):\n%s", diff)
	}
	if got := text(route, "spec", "target", "service"); got != service.Name {
		t.Errorf("the route leads to %s, want %s", got, service.Name)
	}
	if got := text(scaledObject, "spec", "scaleTargetRef", "name"); got != d.Name {
		t.Errorf("KEDA scales %s, want %s", got, d.Name)
	}
	triggers, _, err := unstructured.NestedSlice(scaledObject.Object, "spec", "triggers")
	if err != nil || len(triggers) != 1 {
		t.Fatalf("triggers %v, error %v", triggers, err)
	}
	if got := text(&unstructured.Unstructured{Object: triggers[0].(map[string]any)}, "metadata", "interceptorRoute"); got != route.GetName() {
		t.Errorf("the trigger counts calls of %s, want %s", got, route.GetName())
	}
}

func TestWakeParts(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	after := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	r := &wakes{answer: sample{name: "x"}, parts: map[string]*sample{}, stages: newStages()}
	r.add(began, seen{reached: timeline{
		scaled: after(100), podMade: after(110), scheduled: after(130), started: after(600), loaded: after(700),
		podReady: after(720), endpoint: after(750), answered: after(755),
	}})
	// The log of the second pod could not be read, so that its load counts to what follows.
	r.add(began, seen{earlyProbes: 2, reached: timeline{
		scaled: after(50), scheduled: after(60), started: after(500), endpoint: after(800), answered: after(801),
	}})
	if r.earlyProbes != 1 {
		t.Errorf("%d runs in which a probe failed, want 1", r.earlyProbes)
	}
	got := map[string][]time.Duration{}
	for name, s := range r.parts {
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
	tables := r.tables("python3.11", wakerKEDA)
	if len(tables) != 2 || tables[0].block != "wake-parts-python3.11-keda" || len(tables[0].rows) != len(wakeParts()) {
		t.Errorf("tables %+v", tables)
	}
}
