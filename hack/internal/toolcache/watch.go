// SPDX-License-Identifier: Apache-2.0

package toolcache

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	// tailLines is how much of the compiler's output an error shows.
	tailLines = 20
	// maxLine bounds one line that is kept.
	maxLine = 4096
)

// watcher turns the output of `go build -v` into progress lines and keeps its end for an error.
type watcher struct {
	progress Progress
	partial  []byte
	last     []string
	compiled int
}

func newWatcher(progress Progress) *watcher {
	return &watcher{progress: progress}
}

// Write takes output in any pieces; it never fails.
func (w *watcher) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if room := maxLine - len(w.partial); room > 0 {
			w.partial = append(w.partial, line[:min(len(line), room)]...)
		}
		if !found {
			break
		}
		w.line(string(w.partial))
		w.partial = w.partial[:0]
		rest = after
	}
	return len(p), nil
}

func (w *watcher) line(line string) {
	line = strings.TrimRight(line, "\r ")
	if line == "" {
		return
	}
	w.last = append(w.last, line)
	if len(w.last) > tailLines {
		w.last = w.last[1:]
	}
	switch {
	case strings.HasPrefix(line, "go: "):
		w.progress(strings.TrimPrefix(line, "go: "))
	case !strings.ContainsAny(line, " \t:"):
		// With -v the compiler names each package that it had to compile, one a line.
		w.compiled++
		w.progress(fmt.Sprintf("%d packages compiled, now %s", w.compiled, line))
	}
}

// tail gives the last lines, the unfinished one included.
func (w *watcher) tail() string {
	lines := w.last
	if len(w.partial) > 0 {
		lines = append(lines, string(w.partial))
	}
	return strings.Join(lines, "\n")
}
