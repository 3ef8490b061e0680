// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/naeel/sless/internal/testutil"
)

// TestRefusalBudget has one namespace flooded with refusals, which leaves the others alone and ends in time.
func TestRefusalBudget(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, time.November, 30, 0, 0, 0, 0, time.UTC))
	recorder := events.NewFakeRecorder(3 * refusalBurst)
	teller := newRefusalTeller(recorder, clock)
	tell := func(namespace string, times int) (sent int) {
		for range times {
			teller.tell(testutil.MakeFunction("f", namespace).Obj(), false, Review{Denied: "it mines", Digest: "sha256:ab"})
		}
		for len(recorder.Events) > 0 {
			<-recorder.Events
			sent++
		}
		return sent
	}
	if got := tell("loud", 2*refusalBurst); got != refusalBurst {
		t.Errorf("%d events at once, want %d", got, refusalBurst)
	}
	if got := tell("quiet", 1); got != 1 {
		t.Errorf("another namespace got %d events, want 1", got)
	}
	clock.SetTime(clock.Now().Add(10 * time.Second))
	if got := tell("loud", refusalBurst); got != 10*refusalsPerSec {
		t.Errorf("%d events after 10 s, want %d", got, 10*refusalsPerSec)
	}
	clock.SetTime(clock.Now().Add(2 * refusalMemory))
	if got := tell("loud", 2*refusalBurst); got != refusalBurst {
		t.Errorf("%d events after a long pause, want %d", got, refusalBurst)
	}
}
