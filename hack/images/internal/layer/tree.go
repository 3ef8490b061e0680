// SPDX-License-Identifier: Apache-2.0

// Package layer makes image layers whose bytes depend on their content alone: sorted names, no times, no owner names.
package layer

import (
	"archive/tar"
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"
)

// Entry is one file, directory or symbolic link of a Tree.
type Entry struct {
	Type byte  // tar.TypeReg, tar.TypeDir or tar.TypeSymlink
	Mode int64 // permission bits with setuid, setgid and sticky
	UID  int
	GID  int
	Link string // target of a symbolic link
	Data []byte // content of a file
}

// Tree is a file system in memory, keyed by slash-separated names without leading or trailing slash.
type Tree map[string]Entry

// Dir returns a directory owned by root.
func Dir(mode int64) Entry { return Entry{Type: tar.TypeDir, Mode: mode} }

// File returns a file owned by root.
func File(mode int64, data []byte) Entry { return Entry{Type: tar.TypeReg, Mode: mode, Data: data} }

// Symlink returns a symbolic link to target.
func Symlink(target string) Entry { return Entry{Type: tar.TypeSymlink, Mode: 0o777, Link: target} }

// Clean turns a path as people and archives write it into a Tree key. The root itself becomes "".
func Clean(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

// AddParents adds the directories that entries lie in and that the tree lacks, with mode 0755.
func (t Tree) AddParents() {
	for _, name := range slices.Collect(maps.Keys(t)) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, ok := t[dir]; ok {
				break
			}
			t[dir] = Dir(0o755)
		}
	}
}

// Filter drops every entry that matches a pattern of remove, or lies in a directory that does, unless it matches a
// pattern of keep. Patterns are those of path.Match, anchored at the root; call CheckPatterns on them first.
func (t Tree) Filter(remove, keep []string) {
	maps.DeleteFunc(t, func(name string, _ Entry) bool {
		return matchesTree(name, remove) && !matchesTree(name, keep)
	})
}

// CheckPatterns returns the first malformed pattern's error.
func CheckPatterns(patterns []string) error {
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return err
		}
	}
	return nil
}

func matchesTree(name string, patterns []string) bool {
	for p := name; p != "."; p = path.Dir(p) {
		for _, pattern := range patterns {
			if ok, err := path.Match(pattern, p); ok && err == nil {
				return true
			}
		}
	}
	return false
}

// Without returns the entries that base lacks or has otherwise: the layer that turns base into t. Entries that t lacks
// are not removed: a layer that only adds is all that is needed here.
func (t Tree) Without(base Tree) Tree {
	out := Tree{}
	for name, entry := range t {
		if old, ok := base[name]; !ok || !same(old, entry) {
			out[name] = entry
		}
	}
	return out
}

func same(a, b Entry) bool {
	return a.Type == b.Type && a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && a.Link == b.Link &&
		bytes.Equal(a.Data, b.Data)
}

// mergedDirs are the directories that a merged-/usr system has as links into /usr.
var mergedDirs = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// MergeUsr moves /bin, /lib and the like into /usr and leaves links, as an installed Debian system has them. Packages
// that are only extracted are spread over both places, and scripts that name /usr/bin/sh would not run.
func (t Tree) MergeUsr() {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		top, _, _ := strings.Cut(name, "/")
		entry := t[name]
		if !slices.Contains(mergedDirs, top) || (name == top && entry.Type != tar.TypeDir) {
			continue
		}
		delete(t, name)
		if _, taken := t["usr/"+name]; !taken {
			t["usr/"+name] = entry
		}
		t[top] = Symlink("usr/" + top)
	}
}
