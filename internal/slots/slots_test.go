// SPDX-License-Identifier: Apache-2.0

package slots

import "testing"

func TestSlotsOfOneNamespace(t *testing.T) {
	t.Parallel()
	s := New(4)
	for range 2 {
		if _, ok := s.Acquire("a"); !ok {
			t.Fatal("there is no slot")
		}
	}
	wait, ok := s.Acquire("a")
	if ok {
		t.Error("one namespace got more than half of the slots")
	}
	for range 2 {
		if _, ok := s.Acquire("b"); !ok {
			t.Error("another namespace got no slot")
		}
	}
	if _, ok := s.Acquire("c"); ok {
		t.Error("there are more slots than in all")
	}
	s.Release("a")
	<-wait
	if _, ok := s.Acquire("a"); !ok {
		t.Error("a freed slot is not given out again")
	}
	if _, ok := New(1).Acquire("a"); !ok {
		t.Error("the only slot is not given out")
	}
}
