// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// quiet is how long writes are waited for after something that should cause none.
const quiet = 2 * time.Second

// measureNoop counts what an apply that changes nothing writes, and what a pass of the controller over an unchanged
// Function writes. Both must be nothing.
func measureNoop(ctx context.Context, b *bench, runs int) ([]*table, error) {
	times := &table{block: "noop", title: "Applying the same file again", columns: sampleColumns("from apply to")}
	writes := &table{block: "noop-writes", title: "API writes, all runs together",
		columns: []string{"after", "runs", "Function", "Deployment", "Service", "all watched objects"}}
	tables := []*table{times, writes}
	for _, p := range b.programs() {
		fn := p.function("noop-"+strings.ReplaceAll(p.runtime, ".", "-"), 1)
		b.say("Deploying %s", fn.Name)
		if _, err := b.deploy(ctx, fn); err != nil {
			return tables, err
		}
		if err := sleep(ctx, quiet); err != nil { // the last writes of the roll-out
			return tables, err
		}
		observed := &sample{name: p.runtime + ": observed, still Ready"}
		again, forced := &writeCount{}, &writeCount{}
		for range runs {
			if err := b.applyAgain(ctx, fn, observed, again); err != nil {
				return tables, err
			}
			if err := b.forcePass(ctx, fn, forced); err != nil {
				return tables, err
			}
		}
		times.rows = append(times.rows, observed.row())
		writes.rows = append(writes.rows, again.row(p.runtime+": second apply", runs),
			forced.row(p.runtime+": forced pass of the controller", runs))
		b.say("%s: %d applies of the same, %d writes; %d forced passes, %d writes", p.runtime, runs, again.total, runs,
			forced.total)
	}
	return tables, nil
}

// writeCount counts writes: changes of the resource version, and everything that the watches told of.
type writeCount struct {
	function, deployment, service, total int
}

func (w *writeCount) row(name string, runs int) []string {
	return []string{
		name, strconv.Itoa(runs), strconv.Itoa(w.function), strconv.Itoa(w.deployment), strconv.Itoa(w.service),
		strconv.Itoa(w.total),
	}
}

// add counts what changed between two looks at the objects, and what was recorded.
func (w *writeCount) add(before, after versions, recorded int) {
	count := func(into *int, was, is string) {
		if was != is {
			*into++
		}
	}
	count(&w.function, before.function, after.function)
	count(&w.deployment, before.deployment, after.deployment)
	count(&w.service, before.service, after.service)
	w.total += recorded
}

func (b *bench) applyAgain(ctx context.Context, fn *v1alpha1.Function, observed *sample, writes *writeCount) error {
	before, err := b.versionsOf(ctx, fn)
	if err != nil {
		return err
	}
	b.records.reset()
	began := b.now()
	stored, err := b.apply(ctx, fn)
	if err != nil {
		return err
	}
	if isReady(stored, stored.Generation) {
		observed.add(b.now().Sub(began))
	} else {
		observed.failures++
		b.wrongAnswer("%s is not Ready after an apply that changed nothing", fn.Name)
	}
	return b.countWrites(ctx, fn, "an apply that changed nothing", before, writes)
}

// forcePass asks the controller for a pass. The request itself is a write, and not counted.
func (b *bench) forcePass(ctx context.Context, fn *v1alpha1.Function, writes *writeCount) error {
	live := &v1alpha1.Function{}
	if err := b.client.Get(ctx, client.ObjectKeyFromObject(fn), live); err != nil {
		return fmt.Errorf("reading Function %s: %w", fn.Name, err)
	}
	asked := live.DeepCopy()
	if asked.Annotations == nil {
		asked.Annotations = map[string]string{}
	}
	asked.Annotations[v1alpha1.AnnotationReconcileAt] = b.now().UTC().Format(time.RFC3339Nano)
	b.records.reset()
	if err := b.client.Patch(ctx, asked, client.MergeFrom(live)); err != nil {
		return fmt.Errorf("asking for a pass over %s: %w", fn.Name, err)
	}
	before, err := b.versionsOf(ctx, fn)
	if err != nil {
		return err
	}
	before.function = asked.ResourceVersion
	return b.countWrites(ctx, fn, "a pass over an unchanged Function", before, writes)
}

func (b *bench) countWrites(
	ctx context.Context, fn *v1alpha1.Function, cause string, before versions, writes *writeCount,
) error {
	if err := sleep(ctx, quiet); err != nil {
		return err
	}
	after, err := b.versionsOf(ctx, fn)
	if err != nil {
		return err
	}
	recorded := slices.DeleteFunc(b.records.all(), func(r record) bool {
		return r.obj.GetResourceVersion() == before.function
	})
	writes.add(before, after, len(recorded))
	if before != after || len(recorded) > 0 {
		b.wrongAnswer("%s caused writes: %s", cause, describe(recorded))
	}
	return nil
}

// describe names the objects of some records, a few at most.
func describe(records []record) string {
	const most = 5
	names := []string{}
	for _, r := range records[:min(most, len(records))] {
		names = append(names, fmt.Sprintf("%T %s/%s", r.obj, r.obj.GetNamespace(), r.obj.GetName()))
	}
	return strings.Join(names, ", ")
}

// versions are the resource versions of a Function and of what was made for it.
type versions struct {
	function, deployment, service string
}

func (b *bench) versionsOf(ctx context.Context, fn *v1alpha1.Function) (versions, error) {
	v := versions{}
	deploy := naming.DeployNamespace(fn.Namespace)
	for _, part := range []struct {
		into      *string
		namespace string
		obj       client.Object
	}{
		{&v.function, fn.Namespace, &v1alpha1.Function{}},
		{&v.deployment, deploy, &appsv1.Deployment{}},
		{&v.service, deploy, &corev1.Service{}},
	} {
		key := client.ObjectKey{Namespace: part.namespace, Name: fn.Name}
		if err := b.client.Get(ctx, key, part.obj); err != nil {
			return v, fmt.Errorf("reading %T %s: %w", part.obj, key, err)
		}
		*part.into = part.obj.GetResourceVersion()
	}
	return v, nil
}
