// SPDX-License-Identifier: Apache-2.0

package api

import "sync"

// slots bound what is worked on at once, in all and per namespace, so that one tenant cannot keep out the others.
type slots struct {
	total, perNamespace int

	mu     sync.Mutex
	taken  int
	byName map[string]int
}

func newSlots(total int) *slots {
	return &slots{total: total, perNamespace: (total + 1) / 2, byName: map[string]int{}}
}

// acquire takes a slot. It never waits: when there is none it reports false, and release must not be called.
func (s *slots) acquire(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.total || s.byName[namespace] >= s.perNamespace {
		return false
	}
	s.taken++
	s.byName[namespace]++
	return true
}

func (s *slots) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.byName[namespace]--; s.byName[namespace] == 0 {
		delete(s.byName, namespace)
	}
}
