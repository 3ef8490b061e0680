// SPDX-License-Identifier: Apache-2.0

package validator

import "sync"

// slots bound what is asked at once, in all and for one namespace, so that one tenant cannot keep out the others.
type slots struct {
	total, perNamespace int

	mu     sync.Mutex
	taken  int
	byName map[string]int
	// freed is closed when a slot becomes free.
	freed chan struct{}
}

func newSlots(total int) *slots {
	return &slots{total: total, perNamespace: (total + 1) / 2, byName: map[string]int{}, freed: make(chan struct{})}
}

// acquire takes a slot, or returns a channel that is closed when trying again makes sense.
func (s *slots) acquire(namespace string) (wait <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.total || s.byName[namespace] >= s.perNamespace {
		return s.freed, false
	}
	s.taken++
	s.byName[namespace]++
	return nil, true
}

func (s *slots) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.byName[namespace]--; s.byName[namespace] == 0 {
		delete(s.byName, namespace)
	}
	close(s.freed)
	s.freed = make(chan struct{})
}
