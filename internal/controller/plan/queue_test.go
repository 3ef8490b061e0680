// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

// of says for which user namespace a Job was made.
func of(namespace string) jobOption {
	return func(j *batchv1.Job) {
		metav1.SetMetaDataAnnotation(&j.ObjectMeta, v1alpha1.AnnotationOwner, namespace+"/cart")
	}
}

func round(n int) jobOption { return func(j *batchv1.Job) { resources.SetRound(j, n) } }

func deleted(j *batchv1.Job) { j.DeletionTimestamp = new(metav1.NewTime(epoch)) }

func paused(j *batchv1.Job) {
	resources.Hold(j, resources.Held{Until: epoch.Add(time.Minute), Times: 1, Reason: v1alpha1.ReasonQuotaExceeded, Message: "full"})
}

func TestDueJobs(t *testing.T) {
	t.Parallel()
	shop, bank := of("shop"), of("bank")
	tests := map[string]struct {
		slots int
		jobs  []*batchv1.Job
		want  []string
	}{
		"nothing": {slots: 3},
		"by age within a namespace": {slots: 1, jobs: []*batchv1.Job{
			makeJob("a", shop, suspended, created(time.Second)), makeJob("b", shop, suspended),
		}, want: []string{"b"}},
		"by name at last": {slots: 1, jobs: []*batchv1.Job{makeJob("b", shop, suspended), makeJob("a", shop, suspended)}, want: []string{"a"}},
		"by round before age": {slots: 1, jobs: []*batchv1.Job{
			makeJob("a", shop, suspended, round(2)), makeJob("b", bank, suspended, round(1), created(time.Hour)),
		}, want: []string{"b"}},
		"by number of Jobs before age": {slots: 2, jobs: []*batchv1.Job{
			makeJob("a", shop), makeJob("b", shop, suspended, round(1)), makeJob("c", bank, suspended, round(1), created(time.Hour)),
		}, want: []string{"c"}},
		"all slots of one namespace": {slots: 3, jobs: []*batchv1.Job{
			makeJob("a", shop), makeJob("b", shop, suspended, round(1)), makeJob("c", shop, suspended, round(2)),
			makeJob("d", shop, suspended, round(3)),
		}, want: []string{"b", "c"}},
		"no free slot":           {slots: 1, jobs: []*batchv1.Job{makeJob("a", shop), makeJob("b", bank, suspended)}},
		"fewer slots than Jobs":  {slots: 1, jobs: []*batchv1.Job{makeJob("a", shop), makeJob("b", shop), makeJob("c", bank, suspended)}},
		"ended ones have none":   {slots: 1, jobs: []*batchv1.Job{makeJob("a", shop, ended(batchv1.JobFailed, "")), makeJob("b", bank, suspended)}, want: []string{"b"}},
		"one that is deleted":    {slots: 1, jobs: []*batchv1.Job{makeJob("a", shop, suspended, deleted), makeJob("b", bank, suspended, round(1))}, want: []string{"b"}},
		"one that still goes":    {slots: 1, jobs: []*batchv1.Job{makeJob("a", shop, deleted), makeJob("b", bank, suspended)}},
		"one that pauses":        {slots: 1, jobs: []*batchv1.Job{makeJob("a", shop, suspended, paused), makeJob("b", bank, suspended, round(1))}, want: []string{"b"}},
		"one without a round":    {slots: 1, jobs: []*batchv1.Job{makeJob("a", shop, suspended, round(1)), makeJob("b", shop, suspended, created(time.Hour))}, want: []string{"b"}},
		"without its annotation": {slots: 1, jobs: []*batchv1.Job{makeJob("a", suspended)}, want: []string{"a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobs := make([]batchv1.Job, 0, len(tc.jobs))
			for _, job := range tc.jobs {
				jobs = append(jobs, *job)
			}
			var got []string
			for _, job := range DueJobs(jobs, tc.slots, epoch) {
				got = append(got, job.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("DueJobs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNextRound(t *testing.T) {
	t.Parallel()
	shop, bank := of("shop"), of("bank")
	tests := map[string]struct {
		jobs []*batchv1.Job
		want int
	}{
		"the first Job":               {want: 0},
		"the second of a namespace":   {jobs: []*batchv1.Job{makeJob("a", shop, suspended)}, want: 1},
		"beside one that runs":        {jobs: []*batchv1.Job{makeJob("a", bank, round(4))}, want: 5},
		"beside some that run":        {jobs: []*batchv1.Job{makeJob("a", bank, round(4)), makeJob("b", bank, round(6))}, want: 7},
		"beside some that wait":       {jobs: []*batchv1.Job{makeJob("a", bank, round(4)), makeJob("b", bank, round(9), suspended)}, want: 5},
		"while nothing runs":          {jobs: []*batchv1.Job{makeJob("a", bank, round(6), suspended), makeJob("b", bank, round(5), suspended)}, want: 5},
		"behind its own":              {jobs: []*batchv1.Job{makeJob("a", bank, round(4)), makeJob("b", shop, round(9), suspended)}, want: 10},
		"ended ones count not":        {jobs: []*batchv1.Job{makeJob("a", shop, round(4), ended(batchv1.JobFailed, ""))}, want: 0},
		"those that go count not":     {jobs: []*batchv1.Job{makeJob("a", shop, round(4), deleted)}, want: 0},
		"an annotation that is wrong": {jobs: []*batchv1.Job{makeJob("a", bank, round(-3))}, want: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var jobs []batchv1.Job
			for _, job := range tc.jobs {
				jobs = append(jobs, *job)
			}
			if got := NextRound("shop", jobs); got != tc.want {
				t.Errorf("NextRound = %d, want %d", got, tc.want)
			}
		})
	}
}

// builds is a cluster in which builds end one after the other.
type builds struct {
	t     *testing.T
	slots int
	jobs  []batchv1.Job
	made  int
	// order are the namespaces in the order in which their builds were started.
	order []string
}

// add queues builds of a namespace, and starts what may start.
func (b *builds) add(namespace string, n int) {
	for range n {
		step := NextBuildStep(BuildState{Namespace: namespace, Jobs: b.jobs, MaxConcurrent: b.slots, Now: epoch})
		b.jobs = append(b.jobs, *makeJob(fmt.Sprintf("%s-%03d", namespace, b.made), of(namespace), suspended,
			created(time.Duration(b.made)*time.Second), round(step.Round)))
		b.made++
	}
	b.start()
}

// end ends the build that was started first, and starts what may start.
func (b *builds) end() {
	i := slices.IndexFunc(b.jobs, func(j batchv1.Job) bool { return !*j.Spec.Suspend })
	b.jobs = slices.Delete(b.jobs, i, i+1) // its image is there, so the Job goes
	b.start()
}

// start asks for every build, as their Functions do, and checks that what each is told agrees with the others.
func (b *builds) start() {
	b.t.Helper()
	due, starts := len(DueJobs(b.jobs, b.slots, epoch)), 0
	positions := map[string]bool{}
	for i := range b.jobs {
		if !*b.jobs[i].Spec.Suspend {
			continue
		}
		step := NextBuildStep(BuildState{Job: &b.jobs[i], Jobs: b.jobs, MaxConcurrent: b.slots, Now: epoch})
		if step.Action == BuildStart {
			starts++
			continue
		}
		if positions[step.Message] {
			b.t.Fatalf("two builds are told %q", step.Message)
		}
		positions[step.Message] = true
	}
	if starts != due {
		b.t.Fatalf("%d builds may start, and it is the turn of %d", starts, due)
	}
	for _, job := range DueJobs(slices.Clone(b.jobs), b.slots, epoch) {
		i := slices.IndexFunc(b.jobs, func(j batchv1.Job) bool { return j.Name == job.Name })
		b.jobs[i].Spec.Suspend = new(false)
		started := b.jobs[i]
		b.jobs = append(slices.Delete(b.jobs, i, i+1), started)
		namespace, _, _ := strings.Cut(job.Name, "-")
		b.order = append(b.order, namespace)
	}
	running := queueOf(b.jobs, epoch).running
	if running > b.slots || running < min(b.slots, len(b.jobs)) {
		b.t.Fatalf("%d of %d builds run, with %d slots", running, len(b.jobs), b.slots)
	}
}

// A newcomer gets the next free slot, or, when others wait too, waits for at most one build of each.
func TestQueueLetsNewcomersIn(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 2, 3, 5} {
		for _, hogs := range []int{1, 4} {
			for after := range 6 {
				b := &builds{t: t, slots: slots}
				for h := range hogs {
					b.add(fmt.Sprintf("hog%d", h), 12)
				}
				for range after {
					b.end()
				}
				b.order = nil
				b.add("shop", 1)
				for range hogs {
					b.end()
				}
				if !slices.Contains(b.order, "shop") {
					t.Errorf("%d slots, %d namespaces with many builds, after %d: those that follow are of %v", slots, hogs, after, b.order)
				}
			}
		}
	}
}

func TestQueueTakesTurns(t *testing.T) {
	t.Parallel()
	b := &builds{t: t, slots: 1}
	b.add("hog", 50)
	b.add("shop", 5)
	b.add("bank", 5)
	b.order = nil
	for range 15 {
		b.end()
	}
	count := map[string]int{}
	for _, namespace := range b.order {
		count[namespace]++
	}
	if diff := cmp.Diff(map[string]int{"hog": 5, "shop": 5, "bank": 5}, count); diff != "" {
		t.Errorf("builds that were started (-want +got):\n%s\n%v", diff, b.order)
	}
}

// Two namespaces that always queue a build while one of the other runs never have more than a moment's few builds, and do not
// keep one out that has many.
func TestQueueStarvesNobody(t *testing.T) {
	t.Parallel()
	b := &builds{t: t, slots: 1}
	b.add("many", 20)
	b.order = nil
	for i := range 30 {
		b.add([]string{"one", "two"}[i%2], 1)
		b.end()
	}
	longest, since := 0, 0
	for _, namespace := range b.order {
		if since++; namespace == "many" {
			longest, since = max(longest, since), 0
		}
	}
	if longest = max(longest, since); longest > 4 {
		t.Errorf("a namespace waits for %d builds of others: %v", longest, b.order)
	}
}
