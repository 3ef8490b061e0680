// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func TestClaims(t *testing.T) {
	t.Parallel()
	now := time.Unix(100_000, 0)
	claimed := func(ages ...time.Duration) *claims {
		c := newClaims()
		for _, age := range ages {
			if err := c.claim(t.Context(), now.Add(-age), "a"); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	tests := map[string]struct {
		claims *claims
		keys   []string
		want   bool
	}{
		"never claimed":             {claimed(), []string{"a"}, true},
		"claimed now":               {claimed(0), []string{"a"}, false},
		"claimed within the grace":  {claimed(time.Hour), []string{"a"}, false},
		"claimed before the grace":  {claimed(time.Hour + 1), []string{"a"}, true},
		"claimed again":             {claimed(5*time.Hour, time.Minute), []string{"a"}, false},
		"another is claimed":        {claimed(0), []string{"b"}, true},
		"one of several is claimed": {claimed(0), []string{"b", "a"}, false},
	}
	for name, tc := range tests {
		done, ok := tc.claims.remove(now.Add(-time.Hour), tc.keys...)
		if ok != tc.want {
			t.Errorf("%s: got %v", name, ok)
		}
		if ok {
			if _, twice := tc.claims.remove(now, tc.keys...); twice {
				t.Errorf("%s: it is removed twice at once", name)
			}
			done()
		}
	}
	c := claimed(2 * time.Hour)
	c.forget(now.Add(-time.Hour))
	if len(c.claimed) != 0 {
		t.Error("an old claim is not forgotten")
	}
	if err := (*claims)(nil).claim(t.Context(), now, "a"); err != nil {
		t.Error(err)
	}
}

// TestClaimWaits has many controllers make sure that something exists while it is removed all the time. None of them may
// find it and then lose it.
func TestClaimWaits(t *testing.T) {
	t.Parallel()
	c, start := newClaims(), time.Unix(100_000, 0)
	var mu sync.Mutex
	exists := false
	for round := range 200 {
		now := start.Add(time.Duration(round) * time.Hour)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if err := c.claim(t.Context(), now, "a"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				exists = true // as Keep does
				mu.Unlock()
			})
			group.Go(func() {
				if done, ok := c.remove(now, "a"); ok {
					mu.Lock()
					exists = false
					mu.Unlock()
					done()
				}
			})
		}
		group.Wait()
		if !exists {
			t.Fatal("what was claimed is gone")
		}
	}
}

func TestClaimEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := newClaims()
	done, _ := c.remove(time.Unix(0, 0), "a")
	defer done()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.claim(ctx, time.Unix(0, 0), "b", "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
