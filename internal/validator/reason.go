// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"strings"
	"unicode"
)

// MaxReasonBytes bounds a reason of the reviewer wherever it is shown.
const MaxReasonBytes = 300

// noReason stands in for a reason that was not given.
const noReason = "the reviewer gave no reason"

// cleanReason makes a model's words fit for a log line, an event and a terminal: one line, no control or invisible
// characters, bounded.
func cleanReason(text string) string {
	text = strings.ToValidUTF8(text, "")
	words := strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	})
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.Join(words, " "))
	if len(text) > MaxReasonBytes {
		text = strings.ToValidUTF8(text[:MaxReasonBytes-len("…")], "") + "…"
	}
	return strings.TrimSpace(text)
}
