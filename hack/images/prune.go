// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// keepArchives is how many archives of one image stay in the cache: going back to the code of a moment ago is common.
	keepArchives = 3
	// keepLayers is how many layers of each kind that changes with every build stay in the cache.
	keepLayers = 30
)

// pruneLayers removes the layers of programs and small files that were not used for longest.
func (w *workshop) pruneLayers() error {
	var errs []error
	for _, kind := range []string{"program", "files"} {
		errs = append(errs, prune(filepath.Join(w.dir, "layers", kind+"-*.tar.gz"), keepLayers))
	}
	return errors.Join(errs...)
}

// prune removes files that match the pattern, except for the newest keep, in which those in use are counted.
func prune(pattern string, keep int, inUse ...string) error {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	modified := map[string]time.Time{}
	for _, path := range matches {
		if info, err := os.Stat(path); err == nil {
			modified[path] = info.ModTime()
		}
	}
	slices.SortFunc(matches, func(a, b string) int {
		used := func(path string) int {
			if slices.Contains(inUse, path) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(used(a), used(b)), modified[b].Compare(modified[a]))
	})
	for _, old := range matches[min(len(matches), keep):] {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
