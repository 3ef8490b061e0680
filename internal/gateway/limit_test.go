// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	other := types.NamespacedName{Namespace: "demo", Name: "other"}
	l := newLimiter()
	for i, want := range []bool{true, true, false, false} {
		if got := l.acquire(hello, 2); got != want {
			t.Errorf("place %d: got %v", i, got)
		}
	}
	if !l.acquire(other, 2) {
		t.Error("one function's calls take another's places")
	}
	l.release(hello)
	if !l.acquire(hello, 2) || l.acquire(hello, 2) {
		t.Error("one released place must give one place")
	}
	if !l.acquire(hello, 3) {
		t.Error("a limit that has grown gives no place")
	}
	l.release(hello)
	l.release(hello)
	l.release(hello)
	l.release(other)
	if len(l.calls) != 0 {
		t.Errorf("idle functions take memory: %v", l.calls)
	}
}

func TestLimiterIsNeverOverrun(t *testing.T) {
	t.Parallel()
	const limit, tries = 5, 100
	l := newLimiter()
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		held  int
	)
	for range tries {
		group.Go(func() {
			if l.acquire(hello, limit) {
				mu.Lock()
				held++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if held != limit {
		t.Errorf("%d calls got one of %d places", held, limit)
	}
}
