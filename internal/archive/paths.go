// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// whiteoutPrefix marks a file of an OCI layer that deletes a file of the layers below.
const whiteoutPrefix = ".wh."

// checkPath judges one path on its own and says what is wrong with it, or "".
func checkPath(name string, limits Limits) string {
	return checkPathBelow("", name, limits)
}

// checkPathBelow judges a path that begins with a folder, with its slash, whose elements are known to be right.
func checkPathBelow(folder, name string, limits Limits) string {
	switch {
	case name == "":
		return "is an empty path"
	case len(name) > limits.MaxPathBytes:
		return "is a path that is too long"
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.HasPrefix(name, "/"):
		return "is an absolute path"
	case strings.Contains(name, `\`):
		return "has a backslash; folders are separated by /"
	case hasDriveLetter(name):
		return "starts with a drive letter"
	case strings.ContainsFunc(name, isForbiddenRune):
		return "has a control character"
	case strings.Count(name, "/") >= limits.MaxDepth:
		return "is nested too deeply"
	}
	for element := range strings.SplitSeq(name[len(folder):], "/") {
		if problem := checkElement(element, limits); problem != "" {
			return problem
		}
	}
	return ""
}

func checkElement(element string, limits Limits) string {
	switch {
	case element == "":
		return "has an empty element (// or / at the end)"
	case len(element) > limits.MaxNameBytes:
		return "has a name that is too long"
	case strings.HasPrefix(element, whiteoutPrefix):
		return "has a name that starts with " + whiteoutPrefix + ", which deletes files in an image"
	}
	// Compatibility forms of the dot, and spaces around dots, become plain dots in some programs.
	switch strings.TrimFunc(norm.NFKC.String(element), unicode.IsSpace) {
	case "..":
		return "leads out of the source"
	case ".":
		return "has the element \".\""
	case "":
		return "has an element of spaces only"
	}
	return ""
}

func hasDriveLetter(name string) bool {
	if len(name) < 2 || name[1] != ':' {
		return false
	}
	letter := name[0] | 0x20
	return 'a' <= letter && letter <= 'z'
}

// isForbiddenRune finds what cannot be seen in a path, or makes it look like another one: control characters, line
// and paragraph separators, the marks that change the direction of text, and the byte order mark.
func isForbiddenRune(r rune) bool {
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029', r == '\ufeff':
		return true
	case '\u202a' <= r && r <= '\u202e', '\u2066' <= r && r <= '\u2069', r == '\u200e', r == '\u200f':
		return true
	}
	return false
}

// pathSet collects the files and folders of one source and finds those that cannot live beside each other, also on
// file systems that ignore letter case or normalise Unicode. Every name is looked at once for all the paths that it is
// in: normalising is slow enough to be an attack otherwise.
type pathSet struct {
	limits  Limits
	caser   cases.Caser
	seen    map[string]seenPath // by folded path
	folders map[string]string   // path with its slash to folded path with its slash
}

type seenPath struct {
	path  string
	isDir bool
}

func newPathSet(limits Limits) *pathSet {
	return &pathSet{
		limits: limits, caser: cases.Fold(), seen: map[string]seenPath{}, folders: map[string]string{"": ""},
	}
}

// add takes a file or folder and all folders above it. A folder may come again, a file may not.
func (s *pathSet) add(name string, isDir bool) error {
	if len(name) > s.limits.MaxPathBytes {
		return &Error{Path: name, Problem: checkPath(name, s.limits)}
	}
	folder := s.knownFolder(name)
	if problem := checkPathBelow(folder, name, s.limits); problem != "" {
		return &Error{Path: name, Problem: problem}
	}
	start := len(folder)
	for {
		length := strings.IndexByte(name[start:], '/')
		if length < 0 {
			return s.insert(name, start, isDir)
		}
		if err := s.insert(name[:start+length], start, true); err != nil {
			return err
		}
		start += length + 1
	}
}

// knownFolder gives the innermost folder of a path that was taken already, with its slash, or "".
func (s *pathSet) knownFolder(name string) string {
	for {
		name = name[:strings.LastIndexByte(name, '/')+1]
		if _, found := s.folders[name]; found {
			return name
		}
		name = name[:len(name)-1]
	}
}

// insert takes a path whose last element begins at start and whose folder was taken already.
func (s *pathSet) insert(name string, start int, isDir bool) error {
	key := s.folders[name[:start]] + s.fold(name[start:])
	old, found := s.seen[key]
	switch {
	case !found:
		if len(s.seen) >= s.limits.MaxEntries {
			return sourceError("has more than %d files and folders", s.limits.MaxEntries)
		}
		s.seen[key] = seenPath{path: name, isDir: isDir}
		if isDir {
			s.folders[name+"/"] = key + "/"
		}
	case old.path != name:
		return pathError(name, "differs from %s only in letter case or Unicode form", quote(old.path))
	case old.isDir != isDir:
		return pathError(name, "is both a file and a folder")
	case !isDir:
		return pathError(name, "appears twice")
	}
	return nil
}

// fold maps names that a careless file system takes for the same one to the same key.
func (s *pathSet) fold(name string) string {
	if isASCII(name) {
		return strings.ToLower(name)
	}
	return norm.NFD.String(s.caser.String(norm.NFD.String(name)))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
