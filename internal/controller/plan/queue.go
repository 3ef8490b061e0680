// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

// queue is the order in which Jobs that wait suspended get the slots that all namespaces share: builds one queue, fetches
// another.
//
// Each Job is given a round when it is made: the one after that which runs, and for each further Job of the same namespace
// the next. Slots are given by round, so that namespaces take turns: one that queues a hundred Jobs has one in each round.
// Within a round the namespace with the fewest unfinished Jobs comes first. So a newcomer waits for at most one Job of each
// other namespace that waits, and gets the next free slot when there is one such namespace. Whoever comes later is of a later
// round, so that nobody is passed over for ever. A namespace that is alone has all slots, and no slot stays empty.
type queue struct {
	// running is the number of Jobs that have a slot.
	running int
	// waiting are those that wait for one, in no order. Those that pause take nobody's place.
	waiting []*batchv1.Job
	// unfinished are the numbers of Jobs by user namespace.
	unfinished map[string]int
}

func queueOf(jobs []batchv1.Job, now time.Time) queue {
	q := queue{unfinished: map[string]int{}}
	for i := range jobs {
		job := &jobs[i]
		waits := ptr.Deref(job.Spec.Suspend, false)
		if Finished(job) || waits && !job.DeletionTimestamp.IsZero() {
			continue
		}
		q.unfinished[userNamespaceOf(job)]++
		switch {
		case !waits:
			q.running++
		case !resources.HeldOf(job).Until.After(now):
			q.waiting = append(q.waiting, job)
		}
	}
	return q
}

// compare tells which of two Jobs that wait comes first. Names break ties.
func (q queue) compare(a, b *batchv1.Job) int {
	return cmp.Or(
		cmp.Compare(resources.RoundOf(a), resources.RoundOf(b)),
		cmp.Compare(q.unfinished[userNamespaceOf(a)], q.unfinished[userNamespaceOf(b)]),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Name, b.Name),
	)
}

// ahead counts the Jobs that have a slot, and those that get one before job does.
func (q queue) ahead(job *batchv1.Job) int {
	ahead := q.running
	for _, other := range q.waiting {
		if other.Name != job.Name && q.compare(other, job) < 0 {
			ahead++
		}
	}
	return ahead
}

// DueJobs returns the Jobs that wait and whose turn it is, when so many may run at once.
func DueJobs(jobs []batchv1.Job, maxConcurrent int, now time.Time) []*batchv1.Job {
	q := queueOf(jobs, now)
	slices.SortFunc(q.waiting, q.compare)
	return q.waiting[:min(len(q.waiting), max(0, maxConcurrent-q.running))]
}

// NextRound returns the round of a Job that is to be made for a user namespace beside the Jobs that there are.
func NextRound(namespace string, jobs []batchv1.Job) int {
	own, running, waiting := -1, -1, -1
	for i := range jobs {
		job := &jobs[i]
		if Finished(job) || !job.DeletionTimestamp.IsZero() {
			continue
		}
		round := resources.RoundOf(job)
		if userNamespaceOf(job) == namespace {
			own = max(own, round)
		}
		switch {
		case !ptr.Deref(job.Spec.Suspend, false):
			running = max(running, round)
		case waiting < 0 || round < waiting:
			waiting = round
		}
	}
	if running < 0 {
		running = waiting - 1 // what waits first is about to run
	}
	return max(own+1, running+1, 0)
}

// userNamespaceOf returns the namespace of the Function that a Job was made for.
func userNamespaceOf(job *batchv1.Job) string {
	namespace, _, _ := strings.Cut(job.Annotations[v1alpha1.AnnotationOwner], "/")
	return namespace
}
