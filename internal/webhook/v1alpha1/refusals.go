// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/validator"
)

// How many events about refused code one namespace gets: a crowd at once, and then one a second. A refused Function counts
// against no quota, so that the events would be a way to fill the cluster's store. The log has its line in every case.
const (
	refusalBurst     = 100
	refusalsPerSec   = 1
	refusalMemory    = 10 * time.Minute
	refusalsWatched  = 4096
	refusedInlineFmt = "the review refused the inline code %s, and nothing was changed: %s"
)

// refusalTeller sends events about Functions that the review refused before they were stored.
type refusalTeller struct {
	recorder events.EventRecorder
	clock    clock.PassiveClock

	mu sync.Mutex
	// budgets holds a limiter for each namespace that had a refusal lately.
	budgets *cache.LRUExpireCache
}

func newRefusalTeller(recorder events.EventRecorder, now clock.PassiveClock) *refusalTeller {
	return &refusalTeller{
		recorder: recorder, clock: now, budgets: cache.NewLRUExpireCacheWithClock(refusalsWatched, now),
	}
}

// tell sends an event about the Function. isStored says whether there is one of this UID: a Function that is created has one
// too, which nobody will ever find.
func (t *refusalTeller) tell(fn *v1alpha1.Function, isStored bool, review Review) {
	if t == nil || !t.mayTell(fn.Namespace) {
		return
	}
	refusal := validator.Refusal{
		Namespace: fn.Namespace, Name: fn.Name, Digest: review.Digest,
		Note: fmt.Sprintf(refusedInlineFmt, review.Digest, review.Denied),
	}
	if isStored {
		refusal.UID = fn.UID
	}
	refusal.Tell(t.recorder)
}

func (t *refusalTeller) mayTell(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept, _ := t.budgets.Get(namespace)
	budget, ok := kept.(flowcontrol.PassiveRateLimiter)
	if !ok {
		budget = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(refusalsPerSec, refusalBurst, t.clock)
	}
	t.budgets.Add(namespace, budget, refusalMemory)
	return budget.TryAccept()
}
