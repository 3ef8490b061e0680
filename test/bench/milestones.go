// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// milestone is a point on the way from a change to the answer of the new code.
type milestone string

const (
	sent       milestone = "API server: change stored"
	queued     milestone = "controller: build Job made"
	buildPod   milestone = "Job controller: build pod made"
	fetched    milestone = "build: context fetched"
	installed  milestone = "build: dependencies installed (kaniko)"
	pushed     milestone = "build: image pushed, pod ended"
	built      milestone = "Job controller: Job complete"
	rolled     milestone = "controller: Deployment changed"
	scaled     milestone = "KEDA or caller: Deployment scaled up"
	podMade    milestone = "Deployment controller: pod made"
	scheduled  milestone = "scheduler: pod bound to a node"
	pulling    milestone = "kubelet: volumes and sandbox up, pull begins"
	pulled     milestone = "kubelet: image pulled"
	started    milestone = "kubelet: container started"
	loaded     milestone = "runtime: handler loaded"
	podReady   milestone = "kubelet: probe passed, pod ready"
	endpoint   milestone = "endpoint controller: Service lists the pod"
	oldStops   milestone = "ReplicaSet controller: old pod told to stop"
	answered   milestone = "gateway: first answer of the new code"
	functionOK milestone = "Function Ready"
)

// order is how milestones follow each other.
func order() []milestone {
	return []milestone{
		sent, queued, buildPod, fetched, installed, pushed, built, rolled, scaled, podMade, scheduled, pulling, pulled, started,
		loaded, podReady, endpoint, oldStops, answered,
	}
}

// timeline tells when milestones were reached.
type timeline map[milestone]time.Time

func (t timeline) set(m milestone, at time.Time, ok bool) {
	if ok {
		t[m] = at
	}
}

// seen is what the records of one run say.
type seen struct {
	// reached lacks the milestones that did not show.
	reached timeline
	// pod is the name of the new version's pod, or empty.
	pod string
	// earlyProbes counts readiness probes that failed before the pod was ready.
	earlyProbes int
}

// milestones reads the records of one run.
func milestones(records []record, fn *v1alpha1.Function) seen {
	s := seen{reached: timeline{}}
	t := s.reached
	buildMilestones(t, records, fn)
	deploy := naming.DeployNamespace(fn.Namespace)
	ours := func(o record) bool {
		return o.obj.GetNamespace() == deploy && o.obj.GetLabels()[v1alpha1.LabelFunction] == fn.Name
	}
	revision := ""
	at, ok := first(records, func(r record, d *appsv1.Deployment) bool {
		// A Deployment whose controller has caught up was not changed, only its status was.
		if !ours(r) || d.Generation == d.Status.ObservedGeneration {
			return false
		}
		revision = d.Labels[v1alpha1.LabelRevision]
		return true
	})
	t.set(rolled, at, ok)
	uid := types.UID("")
	at, ok = first(records, func(r record, p *corev1.Pod) bool {
		if !r.added || !ours(r) || p.Labels[v1alpha1.LabelRevision] != revision {
			return false
		}
		s.pod, uid = p.Name, p.UID
		return true
	})
	t.set(podMade, at, ok)
	if ok {
		podMilestones(t, records, uid)
		s.earlyProbes = probeFailures(records, uid, t[podReady])
	}
	at, ok = first(records, func(r record, p *corev1.Pod) bool {
		return ours(r) && p.UID != uid && !p.DeletionTimestamp.IsZero()
	})
	t.set(oldStops, at, ok)
	at, ok = first(records, func(_ record, f *v1alpha1.Function) bool {
		return f.Name == fn.Name && isReady(f, fn.Generation)
	})
	t.set(functionOK, at, ok)
	return s
}

// probeFailures counts the readiness probes of a pod that failed before a moment.
func probeFailures(records []record, uid types.UID, before time.Time) int {
	failures := 0
	for _, r := range records {
		event, ok := r.obj.(*corev1.Event)
		if ok && event.InvolvedObject.UID == uid && event.Reason == "Unhealthy" && r.at.Before(before) {
			failures++
		}
	}
	return failures
}

func podMilestones(t timeline, records []record, uid types.UID) {
	pod := func(m milestone, reached func(*corev1.Pod) bool) {
		at, ok := first(records, func(_ record, p *corev1.Pod) bool { return p.UID == uid && reached(p) })
		t.set(m, at, ok)
	}
	pod(scheduled, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	pod(podReady, podIsReady)
	for m, reason := range map[milestone]string{pulling: "Pulling", pulled: "Pulled", started: "Started"} {
		at, ok := first(records, func(_ record, e *corev1.Event) bool {
			return e.InvolvedObject.UID == uid && e.Reason == reason
		})
		t.set(m, at, ok)
	}
	at, ok := first(records, func(_ record, s *discoveryv1.EndpointSlice) bool {
		for _, e := range s.Endpoints {
			if e.TargetRef != nil && e.TargetRef.UID == uid && ptr.Deref(e.Conditions.Ready, false) {
				return true
			}
		}
		return false
	})
	t.set(endpoint, at, ok)
}

func podIsReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// buildMilestones follows the Job and the pod that were made in this run. Those of the run before may still be on their
// way out.
func buildMilestones(t timeline, records []record, fn *v1alpha1.Function) {
	isNew := func(r record) bool {
		return r.added && r.obj.GetNamespace() == buildNamespace && r.obj.GetLabels()[v1alpha1.LabelFunction] == fn.Name
	}
	var job, pod types.UID
	at, ok := first(records, func(r record, j *batchv1.Job) bool { job = j.UID; return isNew(r) })
	t.set(queued, at, ok)
	if ok {
		at, ok = first(records, func(_ record, j *batchv1.Job) bool { return j.UID == job && jobIsComplete(j) })
		t.set(built, at, ok)
	}
	at, ok = first(records, func(r record, p *corev1.Pod) bool { pod = p.UID; return isNew(r) })
	t.set(buildPod, at, ok)
	if !ok {
		return
	}
	for m, reached := range map[milestone]func(*corev1.Pod) bool{
		fetched:   func(p *corev1.Pod) bool { return stepEnded(p, "fetch") },
		installed: func(p *corev1.Pod) bool { return stepEnded(p, "kaniko") },
		pushed:    func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded },
	} {
		at, ok := first(records, func(_ record, p *corev1.Pod) bool { return p.UID == pod && reached(p) })
		t.set(m, at, ok)
	}
}

func jobIsComplete(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func stepEnded(p *corev1.Pod, step string) bool {
	for _, s := range p.Status.InitContainerStatuses {
		if s.Name == step {
			return s.State.Terminated != nil
		}
	}
	return false
}

// stages keeps, over several runs, the time to each milestone from the one before that the run has, and from the start.
type stages struct {
	order         []milestone
	steps, totals map[milestone][]time.Duration
}

func newStages() *stages { return newStagesOf(order()) }

func newStagesOf(order []milestone) *stages {
	return &stages{order: order, steps: map[milestone][]time.Duration{}, totals: map[milestone][]time.Duration{}}
}

func (s *stages) add(began time.Time, t timeline) {
	t = inOrder(s.order, t)
	before := began
	for _, m := range s.order {
		at, ok := t[m]
		if !ok {
			continue
		}
		s.steps[m] = append(s.steps[m], at.Sub(before))
		s.totals[m] = append(s.totals[m], at.Sub(began))
		before = at
	}
}

// inOrder returns a timeline in which no milestone lies after a later one. Watches of different kinds may tell of two
// changes in the wrong order, and the status of a pod comes some time after the fact: what followed proves the fact.
func inOrder(order []milestone, t timeline) timeline {
	ordered := timeline{}
	var next time.Time
	for _, m := range slices.Backward(order) {
		at, ok := t[m]
		if !ok {
			continue
		}
		if !next.IsZero() && at.After(next) {
			at = next
		}
		ordered[m], next = at, at
	}
	return ordered
}

func (s *stages) table(block, title string) *table {
	t := &table{block: block, title: title, columns: []string{"stage", "seen", "median", "p95", "median since apply"}}
	for _, m := range s.order {
		if len(s.steps[m]) > 0 {
			t.add(string(m), itoa(len(s.steps[m])), milliseconds(s.steps[m], 0.5), milliseconds(s.steps[m], 0.95),
				milliseconds(s.totals[m], 0.5))
		}
	}
	return t
}
