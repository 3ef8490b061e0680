// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"maps"
	"slices"
	"testing"
)

// TestCheckPaths holds the check against the packing that it foretells.
func TestCheckPaths(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"plain":           {"handler.py": "", "lib/util.py": ""},
		"out of the code": {"../x": ""},
		"absolute":        {"/etc/passwd": ""},
		"letter case":     {"A.py": "", "a.py": ""},
		"file and folder": {"lib": "", "lib/util.py": ""},
		"empty":           {"": ""},
		"dot":             {"./handler.py": ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, want := FromFiles(files, Options{Limits: DefaultInlineLimits})
			got := CheckPaths(slices.Collect(maps.Keys(files)), DefaultInlineLimits)
			if (want == nil) != (got == nil) || got != nil && got.Error() != want.Error() {
				t.Fatalf("got %v, want %v", got, want)
			}
			if _, ok := errors.AsType[*Error](got); got != nil && !ok {
				t.Errorf("the error is a %T", got)
			}
		})
	}
}
