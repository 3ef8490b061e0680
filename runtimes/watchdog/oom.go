// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// cgroupRoot is where a container sees its own control group.
const cgroupRoot = "/sys/fs/cgroup"

// outOfMemory tells whether the system has killed a process of this container because its memory ran out. It reads both
// versions of control groups.
func outOfMemory(root string) bool {
	for _, name := range []string{"memory.events", "memory/memory.oom_control"} {
		file, err := os.Open(filepath.Join(root, name)) //nolint:gosec // the root is a constant
		if err != nil {
			continue
		}
		kills := counter(file, "oom_kill")
		_ = file.Close()
		if kills != "" && kills != "0" {
			return true
		}
	}
	return false
}

// counter returns the value after a word at the beginning of a line. The kernel's files are a few lines.
func counter(file *os.File, word string) string {
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && name == word {
			return value
		}
	}
	return ""
}
