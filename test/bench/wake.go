// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

const (
	wakeTimeout = time.Minute
	// eventsWait is how long events may lag behind the answer.
	eventsWait = 300 * time.Millisecond
)

// Points on the way of a call at a function at zero, beside those of any pod.
const (
	wakeScaled   milestone = "KEDA: Deployment scaled up"
	wakeAnswered milestone = "gateway: answer"
)

func wakeOrder() []milestone {
	return []milestone{
		wakeScaled, podMade, scheduled, pulling, pulled, started, loaded, podReady, endpoint, wakeAnswered,
	}
}

// wakeParts names the parts of the wait, with the milestone that ends each. It follows the order of the milestones.
func wakeParts() []struct {
	name string
	end  milestone
} {
	return []struct {
		name string
		end  milestone
	}{
		{"control", wakeScaled}, {"schedule", scheduled}, {"start", started}, {"load", loaded}, {"notice", endpoint},
		{"handler", wakeAnswered},
	}
}

// wakes collects the results of waking one function over and over.
type wakes struct {
	runtime string
	// answer is what the caller saw, told what the gateway says of it.
	answer, told sample
	parts        map[string]*sample
	stages       *stages
	// earlyProbes counts the runs in which a readiness probe failed before the pod was ready.
	earlyProbes int
}

func newWakes(runtime string) *wakes {
	return &wakes{
		runtime: runtime, answer: sample{name: runtime + ": answer"}, told: sample{name: runtime + ": wait, by Server-Timing"},
		parts: map[string]*sample{}, stages: newStagesOf(wakeOrder()),
	}
}

// measureWake calls functions that have no pod through the gateway and waits for the answer. Without KEDA nothing is
// measured.
func measureWake(ctx context.Context, b *bench, runs int) ([]*table, error) {
	if ok, err := b.hasAutoscaler("wake"); !ok {
		return nil, err
	}
	summary := &table{
		block: "wake", title: "The first call of a function at zero",
		columns: append(sampleColumns("from call to"), "probe failed first"),
	}
	tables := []*table{summary}
	number := int(b.began.Unix() % 1_000_000)
	for _, p := range b.programs() {
		fn := scaling(p.function("wake-"+strings.ReplaceAll(p.runtime, ".", "-"), number), sleeperIdle)
		s, err := b.deploySleeper(ctx, fn, number)
		if err != nil {
			return tables, err
		}
		w, err := s.wakeOften(ctx, p.runtime, runs)
		summary.add(append(w.answer.row(), itoa(w.earlyProbes))...)
		summary.add(append(w.told.row(), "")...)
		tables = append(tables, w.tables()...)
		if err != nil {
			return tables, err
		}
	}
	return tables, nil
}

// wakeOften wakes the function over and over.
func (s *sleeper) wakeOften(ctx context.Context, runtime string, runs int) (*wakes, error) {
	w := newWakes(runtime)
	for i := range runs {
		if err := s.toZero(ctx); err != nil {
			return w, err
		}
		if err := s.wakeOnce(ctx, w); err != nil {
			w.answer.failures++
			s.wrongAnswer("wake %d of %d of %s: %v", i+1, runs, s.name, err)
			continue
		}
		s.say("%s, wake %d of %d: answer after %s", s.name, i+1, runs, showDuration(w.answer.values[len(w.answer.values)-1]))
	}
	return w, nil
}

// wakeOnce calls the function at zero once.
func (s *sleeper) wakeOnce(ctx context.Context, w *wakes) error {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	s.records.reset()
	began := s.now()
	said, err := s.call(ctx, http.DefaultClient)
	end := s.now()
	if err != nil {
		return err
	}
	if err := said.check(end.Sub(began)); err != nil {
		return err
	}
	if err := sleep(ctx, eventsWait); err != nil {
		return err
	}
	records := s.records.all()
	way := wakeMilestones(records, s.name)
	way.reached[wakeAnswered] = end
	if s.opts.cluster == clusterLocal { // elsewhere the node's clock is another
		at, ok := s.handlerLoaded(ctx, benchNamespace, way.pod)
		way.reached.set(loaded, at, ok)
	}
	w.told.add(said.wait)
	w.add(began, way)
	if s.opts.verbose {
		s.sayStagesOf(wakeOrder(), began, way.reached)
	}
	return nil
}

// wakeMilestones reads the records of one wake of a function.
func wakeMilestones(records []record, function string) seen {
	deploy := naming.DeployNamespace(benchNamespace)
	ours := func(r record) bool {
		return r.obj.GetNamespace() == deploy && r.obj.GetLabels()[v1alpha1.LabelFunction] == function
	}
	s := seen{reached: timeline{}}
	at, ok := first(records, func(r record, d *appsv1.Deployment) bool { return ours(r) && ptr.Deref(d.Spec.Replicas, 1) > 0 })
	s.reached.set(wakeScaled, at, ok)
	pod := &corev1.Pod{}
	at, ok = first(records, func(r record, p *corev1.Pod) bool { pod = p; return r.added && ours(r) })
	s.reached.set(podMade, at, ok)
	if !ok {
		return s
	}
	podMilestones(s.reached, records, pod.UID)
	s.pod, s.earlyProbes = pod.Name, probeFailures(records, pod.UID, s.reached[podReady])
	return s
}

func (w *wakes) add(began time.Time, s seen) {
	t := inOrder(wakeOrder(), s.reached)
	if s.earlyProbes > 0 {
		w.earlyProbes++
	}
	w.answer.add(t[wakeAnswered].Sub(began))
	w.stages.add(began, t)
	before := began
	for _, part := range wakeParts() {
		at, ok := t[part.end]
		if !ok {
			continue
		}
		if w.parts[part.name] == nil {
			w.parts[part.name] = &sample{name: part.name}
		}
		w.parts[part.name].add(at.Sub(before))
		before = at
	}
}

func (w *wakes) tables() []*table {
	parts := &table{
		block: "wake-parts-" + w.runtime, title: "The parts of the wait, " + w.runtime, columns: sampleColumns("part"),
	}
	for _, part := range wakeParts() {
		if s := w.parts[part.name]; s != nil {
			parts.rows = append(parts.rows, s.row())
		}
	}
	all := w.stages.table("wake-stages-"+w.runtime, "Where the time of a first call goes, "+w.runtime)
	all.columns[len(all.columns)-1] = "median since the call"
	return []*table{parts, all}
}
