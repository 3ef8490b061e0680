// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

var deploy = naming.DeployNamespace(benchNamespace)

func testFunction(readyFor int64) *v1alpha1.Function {
	fn := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Name: "f", Namespace: benchNamespace, Generation: 2}}
	fn.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: readyFor,
	}}
	return fn
}

func metaOf(namespace, revision, uid string) metav1.ObjectMeta {
	labels := map[string]string{v1alpha1.LabelFunction: "f", v1alpha1.LabelRevision: revision}
	return metav1.ObjectMeta{Namespace: namespace, Name: uid, UID: types.UID(uid), Labels: labels}
}

func deployment(revision string, generation, observed int64) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metaOf(deploy, revision, "deployment")}
	d.Generation, d.Status.ObservedGeneration = generation, observed
	return d
}

func pod(revision, uid string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metaOf(deploy, revision, uid)}
	if change != nil {
		change(p)
	}
	return p
}

func podEvent(uid, reason string) *corev1.Event {
	return &corev1.Event{InvolvedObject: corev1.ObjectReference{UID: types.UID(uid)}, Reason: reason}
}

func slice(uid string, ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{
		TargetRef:  &corev1.ObjectReference{UID: types.UID(uid)},
		Conditions: discoveryv1.EndpointConditions{Ready: new(ready)},
	}}}
}

func earlierBuildPod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metaOf(buildNamespace, "", "earlier")}
	p.Status.Phase = corev1.PodSucceeded
	return p
}

func buildPodOf(change func(*corev1.PodStatus)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metaOf(buildNamespace, "", "build")}
	change(&p.Status)
	return p
}

func ended(steps ...string) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		for _, step := range steps {
			s.InitContainerStatuses = append(s.InitContainerStatuses, corev1.ContainerStatus{
				Name: step, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			})
		}
	}
}

// told makes records one second apart, beginning with second 0. Objects marked by added are new.
func told(objects ...any) []record {
	records := make([]record, 0, len(objects))
	for i, o := range objects {
		r := record{at: time.Unix(int64(i), 0)}
		switch o := o.(type) {
		case added:
			r.obj, r.added = o.Object, true
		case client.Object:
			r.obj = o
		}
		records = append(records, r)
	}
	return records
}

type added struct{ client.Object }

func terminating(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Unix(1, 0)) }
func bound(p *corev1.Pod)       { p.Spec.NodeName = "node" }
func ready(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func TestMilestones(t *testing.T) {
	t.Parallel()
	job := &batchv1.Job{ObjectMeta: metaOf(buildNamespace, "", "job")}
	complete := job.DeepCopy()
	complete.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	tests := map[string]struct {
		records []record
		// want are the seconds of the records that reach the milestones.
		want            map[milestone]int64
		wantPod         string
		wantEarlyProbes int
	}{
		"nothing happened": {want: map[milestone]int64{}},
		"a whole edit": {
			records: told(
				deployment("old", 1, 1),          // 0: only its status
				deployment("new", 2, 1),          // 1
				deployment("newer", 2, 2),        // 2: caught up
				pod("old", "old", nil),           // 3
				added{pod("new", "new", nil)},    // 4
				pod("new", "new", bound),         // 5
				podEvent("old", "Pulling"),       // 6
				podEvent("new", "Pulling"),       // 7
				podEvent("new", "Pulled"),        // 8
				podEvent("new", "Started"),       // 9
				podEvent("new", "Unhealthy"),     // 10
				slice("new", false),              // 11
				pod("new", "new", ready),         // 12
				podEvent("new", "Unhealthy"),     // 13: too late to matter
				podEvent("old", "Unhealthy"),     // 14
				slice("new", true),               // 15
				pod("old", "old", terminating),   // 16
				testFunction(1), testFunction(2), // 17, 18
				pod("newest", "newest", bound),      // 19
				added{pod("newest", "newest", nil)}, // 20
			),
			want: map[milestone]int64{
				rolled: 1, podMade: 4, scheduled: 5, pulling: 7, pulled: 8, started: 9, podReady: 12, endpoint: 15, oldStops: 16,
				functionOK: 18,
			},
			wantPod: "new", wantEarlyProbes: 1,
		},
		"a build": {
			records: told(
				added{job}, // 0
				added{buildPodOf(func(*corev1.PodStatus) {})},                           // 1
				buildPodOf(ended("fetch")),                                              // 2
				buildPodOf(ended("fetch", "kaniko")),                                    // 3
				buildPodOf(func(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded }), // 4
				complete, // 5
			),
			want: map[milestone]int64{queued: 0, buildPod: 1, fetched: 2, installed: 3, pushed: 4, built: 5},
		},
		"a build after another": {
			records: told(earlierBuildPod(), added{buildPodOf(func(*corev1.PodStatus) {})}, buildPodOf(ended("fetch"))),
			want:    map[milestone]int64{buildPod: 1, fetched: 2},
		},
		"the objects of others": {
			records: told(
				added{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deploy, Name: "x"}}},
				added{&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: buildNamespace, Name: "x"}}},
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: deploy, Generation: 1}},
			),
			want: map[milestone]int64{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := milestones(tc.records, testFunction(0))
			got := map[milestone]int64{}
			for m, at := range s.reached {
				got[m] = at.Unix()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("milestones (-want +got):\n%s", diff)
			}
			if s.pod != tc.wantPod || s.earlyProbes != tc.wantEarlyProbes {
				t.Errorf("pod %q with %d early probes, want %q with %d", s.pod, s.earlyProbes, tc.wantPod, tc.wantEarlyProbes)
			}
		})
	}
}

func TestStages(t *testing.T) {
	t.Parallel()
	began := time.Unix(100, 0)
	after := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	s := newStages()
	s.add(began, timeline{sent: after(10), rolled: after(60), podMade: after(50), answered: after(100)})
	s.add(began, timeline{sent: after(20), answered: after(220)})
	want := [][]string{
		{string(sent), "2", "10 ms", "20 ms", "10 ms"},
		{string(rolled), "1", "40 ms", "40 ms", "50 ms"}, // told of after what it caused
		{string(podMade), "1", "0.00 ms", "0.00 ms", "50 ms"},
		{string(answered), "2", "50 ms", "200 ms", "100 ms"},
	}
	if diff := cmp.Diff(want, s.table("b", "t").rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestLoadedLine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		line   string
		want   time.Time
		wantOK bool
	}{
		"the line": {
			line: `2026-11-30T18:40:01.5Z time=2026-11-30T18:40:01.499Z level=INFO msg="Loaded the handler" duration=38ms`,
			want: time.Date(2026, 11, 30, 18, 40, 1, 500_000_000, time.UTC), wantOK: true,
		},
		"another line": {line: `2026-11-30T18:40:01.5Z level=INFO msg=Listening`},
		"no time":      {line: `x msg="Loaded the handler"`},
		"empty":        {},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := loadedLine(tc.line)
			if ok != tc.wantOK || ok && !got.Equal(tc.want) {
				t.Errorf("loadedLine = %v, %v, want %v, %v", got, ok, tc.want, tc.wantOK)
			}
		})
	}
}

func TestChangesAdd(t *testing.T) {
	t.Parallel()
	began := time.Unix(100, 0)
	c := newChanges("py")
	c.add(began, polled{firstNew: began.Add(time.Second), lastOld: began.Add(2 * time.Second)},
		seen{reached: timeline{functionOK: began.Add(3 * time.Second)}, earlyProbes: 2})
	c.add(began, polled{firstNew: began.Add(2 * time.Second), lastOld: began.Add(time.Second)},
		seen{reached: timeline{functionOK: began.Add(3 * time.Second)}})
	c.calls, c.wrong = 10, 1
	summary, calls := changeTables("edit", "title")
	c.addTo(summary, calls)
	wantSummary := [][]string{
		{"py: first new answer", "2", "1000 ms", "2000 ms", "2000 ms", "0"},
		{"py: Function Ready", "2", "3000 ms", "3000 ms", "3000 ms", "0"},
		{"py: last old answer", "2", "1000 ms", "2000 ms", "2000 ms", "0"},
	}
	if diff := cmp.Diff(wantSummary, summary.rows); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]string{{"py", "10", "1", "1", "1"}}, calls.rows); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
