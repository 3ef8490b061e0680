// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// limiter bounds the calls per function that are in flight or waiting, so that one slow function can neither use up the
// gateway's memory nor starve the others.
type limiter struct {
	mu    sync.Mutex
	calls map[types.NamespacedName]int
}

func newLimiter() *limiter {
	return &limiter{calls: map[types.NamespacedName]int{}}
}

// acquire takes a place, of at most limit ones. It never waits: over the limit it reports false, and release must not be
// called.
func (l *limiter) acquire(fn types.NamespacedName, limit int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.calls[fn]
	if n >= limit {
		return false
	}
	l.calls[fn] = n + 1
	return true
}

// release gives a place back. Functions without calls take no memory.
func (l *limiter) release(fn types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.calls[fn]; n > 1 {
		l.calls[fn] = n - 1
	} else {
		delete(l.calls, fn)
	}
}
