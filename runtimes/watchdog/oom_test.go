// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file, content string
		want          bool
	}{
		"version 2, none":   {file: "memory.events", content: "low 0\noom 0\noom_kill 0\noom_group_kill 0\n"},
		"version 2, one":    {file: "memory.events", content: "low 0\noom 3\noom_kill 1\n", want: true},
		"version 1, none":   {file: "memory/memory.oom_control", content: "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"},
		"version 1, two":    {file: "memory/memory.oom_control", content: "oom_kill_disable 0\noom_kill 2\n", want: true},
		"too old a kernel":  {file: "memory/memory.oom_control", content: "oom_kill_disable 0\nunder_oom 0\n"},
		"no control groups": {file: "other"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			path := filepath.Join(root, tc.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := outOfMemory(root); got != tc.want {
				t.Errorf("outOfMemory = %v, want %v", got, tc.want)
			}
		})
	}
}
