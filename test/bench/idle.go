// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// idleLimit is how much longer than idleSeconds a function may stay up before the benchmark gives up.
const idleLimit = 2 * time.Minute

// nap collects, of one function, how long after a call it went to zero.
type nap struct {
	*sleeper
	idle          time.Duration
	scaled, empty sample
	// early counts the runs in which it was scaled down before idleSeconds were over.
	early int
}

// measureIdle calls functions once and waits until they are at zero. Without KEDA nothing is measured. The functions with
// different idleSeconds take turns at the same time.
func measureIdle(ctx context.Context, b *bench, runs int) ([]*table, error) {
	if ok, err := b.hasAutoscaler("idle"); !ok {
		return nil, err
	}
	summary := &table{
		block: "idle", title: "From the last answer to zero",
		columns: append(sampleColumns("from answer to"), "median above idleSeconds", "before idleSeconds"),
	}
	tables := []*table{summary}
	naps := []*nap{}
	p := b.programs()[0]
	for _, seconds := range b.opts.idle {
		fn := scaling(p.function(fmt.Sprintf("idle-%d", seconds), warmNumber), seconds)
		s, err := b.deploySleeper(ctx, fn, warmNumber)
		if err != nil {
			return tables, err
		}
		naps = append(naps, newNap(s, seconds))
	}
	var failed error
	for range runs {
		if failed = napTogether(ctx, b, naps); failed != nil {
			break
		}
	}
	for _, n := range naps {
		summary.rows = append(summary.rows, n.rows()...)
	}
	return tables, failed
}

func newNap(s *sleeper, seconds int32) *nap {
	what := fmt.Sprintf("idleSeconds %d: ", seconds)
	return &nap{
		sleeper: s, idle: time.Duration(seconds) * time.Second,
		scaled: sample{name: what + "Deployment scaled to zero"}, empty: sample{name: what + "last pod gone"},
	}
}

// napTogether calls each function once and waits until all of them are at zero.
func napTogether(ctx context.Context, b *bench, naps []*nap) error {
	if err := sleep(ctx, forgotten); err != nil {
		return err
	}
	b.records.reset()
	results := make(chan error, len(naps))
	for _, n := range naps {
		go func() { results <- n.once(ctx) }()
	}
	var failed error
	for range naps {
		if err := <-results; err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// once calls the function and waits until it is at zero.
func (n *nap) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.idle+idleLimit)
	defer cancel()
	if _, err := n.call(ctx, http.DefaultClient); err != nil {
		n.wrongAnswer("%s: %v", n.name, err)
		return nil
	}
	answer := n.now()
	for {
		scaled, empty := zeroAfter(n.records.all(), n.name, answer)
		if !scaled.IsZero() && !empty.IsZero() {
			n.add(scaled.Sub(answer), empty.Sub(answer))
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%s is not at zero: %w", n.name, err)
		}
	}
}

func (n *nap) add(scaled, empty time.Duration) {
	n.scaled.add(scaled)
	n.empty.add(empty)
	if scaled < n.idle {
		n.early++
	}
	n.say("%s: scaled to zero after %s, last pod gone after %s", n.name, showDuration(scaled), showDuration(empty))
}

func (n *nap) rows() [][]string {
	above := "–"
	if len(n.scaled.values) > 0 {
		above = showDuration(median(n.scaled.values) - n.idle)
	}
	return [][]string{append(n.scaled.row(), above, itoa(n.early)), append(n.empty.row(), "", "")}
}

// zeroAfter returns when, after a moment, the function's Deployment was scaled to zero and its last pod had gone. Zero: not
// yet.
func zeroAfter(records []record, function string, after time.Time) (scaled, empty time.Time) {
	deploy := naming.DeployNamespace(benchNamespace)
	for _, r := range records {
		if r.obj.GetNamespace() != deploy || r.obj.GetLabels()[v1alpha1.LabelFunction] != function || r.at.Before(after) {
			continue
		}
		switch obj := r.obj.(type) {
		case *appsv1.Deployment:
			if ptr.Deref(obj.Spec.Replicas, 1) == 0 && scaled.IsZero() {
				scaled = r.at
			}
		case *corev1.Pod:
			if r.deleted && !scaled.IsZero() { // else it is one of an earlier time
				empty = r.at
			}
		}
	}
	return scaled, empty
}
