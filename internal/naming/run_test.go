// SPDX-License-Identifier: Apache-2.0

package naming

import (
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestRun(t *testing.T) {
	t.Parallel()
	if got, want := Run("to-2", "uid-1", 3), "to-2-"+Hash("uid-1", "3")[:10]; got != want {
		t.Errorf("Run = %q, want %q", got, want)
	}
	for _, name := range []string{"a", "7", strings.Repeat("a", 52), strings.Repeat("a-", 25) + "a", strings.Repeat("x", 39) + "-.-" + "yyyyyyyyyy"} {
		run := Run(name, "uid-1", math.MaxInt64)
		input := RunInput(run, "some", "content")
		for _, derived := range []string{run + "-abcde", input} {
			if problems := validation.IsDNS1123Label(derived); len(problems) > 0 {
				t.Errorf("%q: %v", derived, problems)
			}
		}
	}
	distinct := map[string]bool{}
	for _, run := range []string{Run("a", "uid-1", 1), Run("a", "uid-1", 2), Run("a", "uid-2", 1), Run("a", "uid-1", 12), Run("b", "uid-1", 1)} {
		distinct[run] = true
	}
	if len(distinct) != 5 {
		t.Errorf("five runs have %d names", len(distinct))
	}
}
