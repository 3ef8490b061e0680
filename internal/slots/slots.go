// SPDX-License-Identifier: Apache-2.0

// Package slots bounds what is worked on at once for many tenants.
package slots

import "sync"

// Slots bound what is worked on at once, in all and for one namespace, which gets half of them at most, so that one tenant cannot
// keep out the others.
type Slots struct {
	total, perNamespace int

	mu     sync.Mutex
	taken  int
	byName map[string]int
	// freed is closed when a slot becomes free.
	freed chan struct{}
}

// New returns slots of which none is taken. total must be at least 1.
func New(total int) *Slots {
	return &Slots{total: total, perNamespace: (total + 1) / 2, byName: map[string]int{}, freed: make(chan struct{})}
}

// Acquire takes a slot, which has to be released, or returns a channel that is closed when trying again makes sense. It never
// waits.
func (s *Slots) Acquire(namespace string) (wait <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.total || s.byName[namespace] >= s.perNamespace {
		return s.freed, false
	}
	s.taken++
	s.byName[namespace]++
	return nil, true
}

// Release gives a slot of the namespace back.
func (s *Slots) Release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.byName[namespace]--; s.byName[namespace] == 0 {
		delete(s.byName, namespace)
	}
	close(s.freed)
	s.freed = make(chan struct{})
}
