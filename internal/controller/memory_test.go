// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"testing"
)

// Of code with large dependency files a few are remembered, which push out nothing small; all are forgotten with their object.
func TestMemoryOfCode(t *testing.T) {
	t.Parallel()
	m := newMemory(false)
	key := func(size string, i int) string {
		return fmt.Sprintf("shop/%s-%d.tar.gz python3.11 handler.handle", size, i)
	}
	for i := range codesKnown {
		m.rememberCode(key("small", i), &codeArchive{}, smallCode)
		m.rememberCode(key("large", i), &codeArchive{}, smallCode+1)
	}
	known := map[string]int{}
	for _, size := range []string{"small", "large"} {
		for i := range codesKnown {
			if _, ok := m.rememberedCode(key(size, i)); ok {
				known[size]++
			}
		}
	}
	if known["small"] != codesKnown || known["large"] != largeCodesKnown {
		t.Errorf("%d small ones are remembered and %d large ones, want %d and %d",
			known["small"], known["large"], codesKnown, largeCodesKnown)
	}
	for _, size := range []string{"small", "large"} {
		m.forgetObject(fmt.Sprintf("shop/%s-%d.tar.gz", size, codesKnown-1))
		if _, ok := m.rememberedCode(key(size, codesKnown-1)); ok {
			t.Errorf("a %s one is remembered after its object was removed", size)
		}
	}
}
