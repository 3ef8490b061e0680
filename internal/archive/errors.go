// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"fmt"
	"strconv"
)

// Error says that a source cannot be accepted, and why. It is meant for the person who wrote the source, and trying
// again with the same source gives the same error.
type Error struct {
	// Path is the file or folder that is wrong, as it was given. It is empty when the source as a whole is wrong.
	Path string
	// Problem says what is wrong with it, in words that go after the path: `is an absolute path`.
	Problem string
}

// Error gives the path, quoted, so that no control character gets into a log or a status, and the problem.
func (e *Error) Error() string {
	if e.Path == "" {
		return "the source " + e.Problem
	}
	return quote(e.Path) + " " + e.Problem
}

func pathError(name, format string, args ...any) *Error {
	return &Error{Path: name, Problem: fmt.Sprintf(format, args...)}
}

func sourceError(format string, args ...any) *Error {
	return &Error{Problem: fmt.Sprintf(format, args...)}
}

// quote quotes a path from outside and cuts it to a length that fits into a sentence.
func quote(s string) string {
	const most = 160
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}
