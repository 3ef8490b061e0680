// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

const (
	runTimeout = time.Minute
	// manyRuns is how many FunctionJobs are created at once.
	manyRuns = 200
	// manyTimeout bounds all of them together.
	manyTimeout = 15 * time.Minute
	// createAtOnce is how many requests for new FunctionJobs are under way at a time.
	createAtOnce = 20
)

// Points on the way of a run, beside those of any pod.
const (
	runMade  milestone = "controller: Job made"
	runPod   milestone = "Job controller: pod made"
	runEnded milestone = "handler called, pod ended"
	runDone  milestone = "FunctionJob Succeeded"
)

// runOrder is how the milestones of a run follow each other.
func runOrder() []milestone {
	return []milestone{sent, runMade, runPod, scheduled, pulled, started, runEnded, runDone}
}

// measureRun creates one FunctionJob after the other and waits for the end of each. The image is on the node already.
func measureRun(ctx context.Context, b *bench, runs int) ([]*table, error) {
	summary := &table{block: "run", title: "A run, from creating the FunctionJob", columns: sampleColumns("from create to")}
	tables := []*table{summary}
	for _, p := range b.programs() {
		fn := p.function("run-"+strings.ReplaceAll(p.runtime, ".", "-"), 1)
		b.say("Deploying %s", fn.Name)
		if _, err := b.deploy(ctx, fn); err != nil {
			return tables, err
		}
		took, stages := &sample{name: p.runtime + ": Succeeded"}, newStagesOf(runOrder())
		for i := range runs {
			name := "run-" + strings.ReplaceAll(p.runtime, ".", "-") + "-" + strconv.Itoa(i)
			if err := b.runOnce(ctx, name, fn.Name, took, stages); err != nil {
				return tables, err
			}
		}
		summary.rows = append(summary.rows, took.row())
		tables = append(tables, stages.table("run-stages-"+p.runtime, "Where the time of a run goes, "+p.runtime))
	}
	return tables, nil
}

// runOnce creates a FunctionJob, waits for its end and deletes it.
func (b *bench) runOnce(ctx context.Context, name, function string, took *sample, stages *stages) error {
	b.records.reset()
	fj := benchJob(name, function)
	began := b.now()
	if err := b.client.Create(ctx, fj); err != nil {
		return fmt.Errorf("creating FunctionJob %s: %w", name, err)
	}
	stored := b.now()
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	for {
		at, ok := first(b.records.all(), func(_ record, j *v1alpha1.FunctionJob) bool {
			return j.UID == fj.UID && j.Status.CompletionTime != nil
		})
		if !ok {
			if err := sleep(ctx, pause); err != nil {
				return fmt.Errorf("FunctionJob %s did not end within %s: %w", name, runTimeout, err)
			}
			continue
		}
		if err := b.checkRun(ctx, fj); err != nil {
			return err
		}
		took.add(at.Sub(began))
		reached := runMilestones(b.records.all(), fj)
		reached[sent], reached[runDone] = stored, at
		stages.add(began, reached)
		b.say("%s: Succeeded after %s", name, showDuration(at.Sub(began)))
		return b.removeJobs(ctx)
	}
}

func benchJob(name, function string) *v1alpha1.FunctionJob {
	return &v1alpha1.FunctionJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: benchNamespace},
		Spec: v1alpha1.FunctionJobSpec{
			FunctionRef: v1alpha1.FunctionReference{Name: function}, RunID: 1,
			Event: &runtime.RawExtension{Raw: []byte(`{"name":"bench"}`)},
		},
	}
}

// checkRun counts a run that did not succeed, or not with the right result, as wrong.
func (b *bench) checkRun(ctx context.Context, fj *v1alpha1.FunctionJob) error {
	if err := b.client.Get(ctx, client.ObjectKeyFromObject(fj), fj); err != nil {
		return fmt.Errorf("reading FunctionJob %s: %w", fj.Name, err)
	}
	if fj.Status.Phase != v1alpha1.JobPhaseSucceeded || fj.Status.Result == nil {
		b.wrongAnswer("FunctionJob %s is %s: %s", fj.Name, fj.Status.Phase, fj.Status.Message)
		return nil
	}
	if number, err := numberOf(fj.Status.Result.Raw); err != nil || number != 1 {
		b.wrongAnswer("the result of FunctionJob %s is %.100s", fj.Name, fj.Status.Result.Raw)
	}
	return nil
}

// runMilestones reads the records of one run.
func runMilestones(records []record, fj *v1alpha1.FunctionJob) timeline {
	t := timeline{}
	ours := func(r record) bool { return r.obj.GetLabels()[v1alpha1.LabelOwnerUID] == string(fj.UID) }
	at, ok := first(records, func(r record, _ *batchv1.Job) bool { return r.added && ours(r) })
	t.set(runMade, at, ok)
	var pod *corev1.Pod
	at, ok = first(records, func(r record, p *corev1.Pod) bool { pod = p; return r.added && ours(r) })
	t.set(runPod, at, ok)
	if ok {
		podMilestones(t, records, pod.UID)
		at, ok = first(records, func(_ record, p *corev1.Pod) bool {
			return p.UID == pod.UID && p.Status.Phase == corev1.PodSucceeded
		})
		t.set(runEnded, at, ok)
	}
	return t
}

// measureManyRuns creates many FunctionJobs at once, waits until all have ended, and counts what the API server wrote.
func measureManyRuns(ctx context.Context, b *bench, _ int) ([]*table, error) {
	summary := &table{block: "runs", title: fmt.Sprintf("%d FunctionJobs at once", manyRuns), columns: []string{"what", "value"}}
	counts := &table{block: "runs-writes", title: "API writes for each of them", columns: []string{"object", "by", "writes", "for each"}}
	tables := []*table{summary, counts}
	p := b.programs()[0]
	fn := p.function("runs", 1)
	b.say("Deploying %s", fn.Name)
	if _, err := b.deploy(ctx, fn); err != nil {
		return tables, err
	}
	if err := sleep(ctx, quiet); err != nil {
		return tables, err
	}
	before, err := b.apiWrites(ctx)
	if err != nil {
		return tables, err
	}
	b.records.reset()
	began := b.now()
	if err := b.createJobs(ctx, fn.Name, manyRuns); err != nil {
		return tables, err
	}
	created := b.now().Sub(began)
	jobs, err := b.waitForJobs(ctx, manyRuns)
	if err != nil {
		return tables, err
	}
	took := b.now().Sub(began)
	if err := sleep(ctx, quiet); err != nil { // the last writes
		return tables, err
	}
	after, err := b.apiWrites(ctx)
	if err != nil {
		return tables, err
	}
	for i := range jobs {
		if err := b.checkRun(ctx, &jobs[i]); err != nil {
			return tables, err
		}
	}
	summary.add("all created", showDuration(created))
	summary.add("all ended", showDuration(took))
	summary.add("ended with another result", itoa(b.wrong))
	// Events about a FunctionJob are in its namespace, those about Jobs and pods are in the other.
	own := slices.DeleteFunc(b.records.all(), func(r record) bool {
		_, ok := r.obj.(*corev1.Event)
		return !ok || r.obj.GetNamespace() != benchNamespace
	})
	counts.rows = writeRows(before, after, manyRuns, len(own))
	return tables, b.removeJobs(ctx)
}

// createJobs creates FunctionJobs, some at a time.
func (b *bench) createJobs(ctx context.Context, function string, n int) error {
	results, slots := make(chan error, n), make(chan struct{}, createAtOnce)
	for i := range n {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			results <- b.client.Create(ctx, benchJob("runs-"+strconv.Itoa(i), function))
		}()
	}
	for range n {
		if err := <-results; err != nil {
			return fmt.Errorf("creating a FunctionJob: %w", err)
		}
	}
	return nil
}

// waitForJobs waits until all FunctionJobs have ended.
func (b *bench) waitForJobs(ctx context.Context, n int) ([]v1alpha1.FunctionJob, error) {
	ctx, cancel := context.WithTimeout(ctx, manyTimeout)
	defer cancel()
	for last := -1; ; {
		list := &v1alpha1.FunctionJobList{}
		if err := b.client.List(ctx, list, client.InNamespace(benchNamespace)); err != nil {
			return nil, fmt.Errorf("listing FunctionJobs: %w", err)
		}
		ended := 0
		for i := range list.Items {
			if list.Items[i].Status.CompletionTime != nil {
				ended++
			}
		}
		if ended == n {
			return list.Items, nil
		}
		if ended/50 != last {
			b.say("%d of %d have ended", ended, n)
			last = ended / 50
		}
		if err := sleep(ctx, 10*pause); err != nil {
			return nil, fmt.Errorf("%d of %d FunctionJobs have ended: %w", ended, n, err)
		}
	}
}

// removeJobs deletes all FunctionJobs of the benchmark and waits until they are gone.
func (b *bench) removeJobs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := b.client.DeleteAllOf(ctx, &v1alpha1.FunctionJob{}, client.InNamespace(benchNamespace)); err != nil {
		return fmt.Errorf("removing the FunctionJobs: %w", err)
	}
	for {
		list := &v1alpha1.FunctionJobList{}
		if err := b.client.List(ctx, list, client.InNamespace(benchNamespace)); err != nil {
			return fmt.Errorf("listing FunctionJobs: %w", err)
		}
		if len(list.Items) == 0 {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%d FunctionJobs are still there: %w", len(list.Items), err)
		}
	}
}
