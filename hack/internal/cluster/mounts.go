// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// mountTable is the kernel's list of what this process sees mounted.
const mountTable = "/proc/self/mountinfo"

// mountsBelow lists the mount points in dir and below, the last mounted first, which is the order to unmount them in.
func mountsBelow(dir, table string) ([]string, error) {
	data, err := os.ReadFile(table)
	if err != nil {
		return nil, err
	}
	const pointAt = 4
	var points []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) <= pointAt {
			continue
		}
		point := unescapeMount(fields[pointAt])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	return points, nil
}

// unescapeMount undoes the octal form in which the kernel writes spaces, tabs, line ends, and backslashes.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unmountBelow unmounts everything in dir. A mount that is in use is taken out of the tree and ends with its last user.
func unmountBelow(dir, table string) error {
	points, err := mountsBelow(dir, table)
	if err != nil {
		return err
	}
	for _, point := range points {
		if err := syscall.Unmount(point, mntDetach); err != nil && err != syscall.EINVAL && err != syscall.ENOENT {
			return fmt.Errorf("unmounting %s: %w", point, err)
		}
	}
	return nil
}

// mntDetach is MNT_DETACH of Linux, the only system on which it is used.
const mntDetach = 2
