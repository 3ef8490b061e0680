// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"

	"github.com/naeel/sless/hack/internal/progress"
)

// maxMessages bounds what is kept of a compiler's messages, in bytes.
const maxMessages = 16 << 10

// buildWatcher reads what `go build -v` prints: it tells how far the build is and keeps the compiler's messages.
type buildWatcher struct {
	folder   string
	say      progress.Say
	partial  []byte
	compiled int
	messages bytes.Buffer
}

// Write takes output in any pieces; it never fails.
func (w *buildWatcher) Write(p []byte) (int, error) {
	w.partial = append(w.partial, p...)
	for {
		line, rest, found := bytes.Cut(w.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.line(string(line))
		w.partial = bytes.Clone(rest)
	}
}

func (w *buildWatcher) line(line string) {
	// With -v the Go tool names each package that it compiles, one a line.
	if line != "" && !strings.ContainsAny(line, " \t:#") {
		w.compiled++
		w.say("%s: %d packages compiled, now %s", w.folder, w.compiled, line)
		return
	}
	if w.messages.Len() < maxMessages {
		w.messages.WriteString(line + "\n")
	}
}
