// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	t.Parallel()
	if got, want := Line(HandlerCrashed, "a\n  b\tc\n"), "HandlerCrashed: a b c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ message, want string }{
		"short":                   {"HandlerCrashed: x", "HandlerCrashed: x"},
		"as long as fits":         {strings.Repeat("x", MaxBytes), strings.Repeat("x", MaxBytes)},
		"cut":                     {strings.Repeat("x", MaxBytes+1), strings.Repeat("x", MaxBytes)},
		"cut between two letters": {strings.Repeat("x", MaxBytes-1) + "ü", strings.Repeat("x", MaxBytes-1)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte("what was there before"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := Write(path, tc.message); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %d bytes, %v, want %d", len(got), err, len(tc.want))
			}
		})
	}
}

func TestWriteOutsideKubernetes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if err := Write(path, "x"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file was made: %v", err)
	}
}
