// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// minQuotation is how many letters and digits in a row have to stand in the code too, for a reason to quote it. Fewer are a
	// name or a few words that say what the code does.
	minQuotation = 24
	// maxQuotedBytes bounds what is looked at of a reason, which is cut much shorter afterwards.
	maxQuotedBytes = 1 << 10
	// quotation stands for what was taken out.
	quotation = "[code]"
)

// letter is the place of a letter or digit in a text.
type letter struct {
	start, end int
}

// withoutCode takes out of a reason what it quotes of the files, with other spaces and quotation marks too. The model is told not to
// quote, and a reason gets into logs and events, which are read by others than the author.
func withoutCode(reason string, files map[string]string) string {
	if len(reason) > maxQuotedBytes {
		reason = reason[:maxQuotedBytes]
	}
	reason = strings.ToValidUTF8(reason, "")
	quoted := quotedLetters(reason, files)
	if len(quoted) == 0 {
		return reason
	}
	out := &strings.Builder{}
	end := 0
	for i, at := range quoted {
		// Signs between two quoted letters, such as brackets, are quoted with them.
		if i == 0 || !adjacent(reason[end:at.start]) {
			out.WriteString(reason[end:at.start])
			out.WriteString(quotation)
		}
		end = at.end
	}
	out.WriteString(reason[end:])
	if wordsOf(strings.ReplaceAll(out.String(), quotation, "")) == "" {
		return ""
	}
	return out.String()
}

// adjacent tells whether there is no letter or digit between two quoted ones.
func adjacent(between string) bool { return wordsOf(between) == "" }

// quotedLetters returns the letters and digits of a reason that are part of a quotation, in their order.
func quotedLetters(reason string, files map[string]string) []letter {
	var letters []letter
	var words []rune
	for at, r := range reason {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			words = append(words, unicode.ToLower(r))
			letters = append(letters, letter{start: at, end: at + utf8.RuneLen(r)})
		}
	}
	if len(words) < minQuotation {
		return nil
	}
	var contents []string
	for _, content := range files {
		contents = append(contents, wordsOf(content))
	}
	var quoted []letter
	done := 0 // letters before this one were decided on
	for i := 0; i+minQuotation <= len(words); i++ {
		window := string(words[i : i+minQuotation])
		if slices.ContainsFunc(contents, func(content string) bool { return strings.Contains(content, window) }) {
			from := max(i, done)
			quoted = append(quoted, letters[from:i+minQuotation]...)
			done = i + minQuotation
		}
	}
	return quoted
}
