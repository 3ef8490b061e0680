// SPDX-License-Identifier: Apache-2.0

package archive

import "slices"

// CheckPaths judges the paths of files as FromFiles does, without their contents: each one on its own, and whether they
// can live beside each other. The error is an *Error.
func CheckPaths(paths []string, limits Limits) error {
	known := newPathSet(limits.withDefaults())
	for _, path := range slices.Sorted(slices.Values(paths)) {
		if err := known.add(path, false); err != nil {
			return err
		}
	}
	return nil
}
