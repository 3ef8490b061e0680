// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode"
)

// maxAnswerBytes bounds what is read of a model's answer. What is asked for has about 300.
const maxAnswerBytes = 16 << 10

// answer is what was asked for.
type answer struct {
	safe   bool
	reason string
	// raw is the object as it stands in the answer.
	raw string
}

// parseAnswer finds the verdict in a model's answer. Models wrap it in prose or code fences, so it may stand anywhere. What
// the code gets into an answer can refuse the code and nothing else: of several verdicts a refusal counts, and one
// that finds the code safe counts only when it does not stand in the code too.
func parseAnswer(text string, files map[string]string) (answer, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return answer{}, failure(CauseAnswer, "the answer is empty")
	case len(text) > maxAnswerBytes:
		return answer{}, failure(CauseAnswer, "the answer has %d bytes", len(text))
	}
	found := verdictsIn(text)
	if len(found) == 0 {
		return answer{}, failure(CauseAnswer, "there is no verdict in the answer")
	}
	for _, a := range found {
		if !a.safe {
			return a, nil
		}
	}
	quoted := quotations(files)
	for _, a := range found {
		if !quoted(a.raw) {
			return a, nil
		}
	}
	return answer{}, failure(CauseAnswer, "the verdict in the answer stands in the code")
}

// verdictOf decodes one JSON object and nothing else. "safe" must be a boolean and "reason" a string, each there once and
// spelled so. Further fields are left alone.
func verdictOf(data []byte) (answer, bool) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	got := answer{}
	seen := map[string]bool{}
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return answer{}, false
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return answer{}, false
		}
		name, _ := key.(string)
		var raw json.RawMessage
		if seen[name] || decoder.Decode(&raw) != nil || !got.set(name, raw) {
			return answer{}, false
		}
		seen[name] = true
	}
	if _, err := decoder.Token(); err != nil {
		return answer{}, false
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return answer{}, false
	}
	return got, seen["safe"] && seen["reason"]
}

// set takes a field over, and reports whether it has the right type. null is no boolean and no string.
func (a *answer) set(name string, raw json.RawMessage) bool {
	switch name {
	case "safe":
		return !bytes.Equal(raw, []byte("null")) && json.Unmarshal(raw, &a.safe) == nil
	case "reason":
		return !bytes.Equal(raw, []byte("null")) && json.Unmarshal(raw, &a.reason) == nil
	}
	return true
}

// verdictsIn returns the verdicts in a text, wherever they stand. What is inside another object does not count.
func verdictsIn(text string) []answer {
	var found []answer
	for {
		start := strings.IndexByte(text, '{')
		if start < 0 {
			return found
		}
		text = text[start:]
		var raw json.RawMessage
		if json.NewDecoder(strings.NewReader(text)).Decode(&raw) != nil {
			text = text[1:]
			continue
		}
		if a, ok := verdictOf(raw); ok {
			a.raw = string(raw)
			found = append(found, a)
		}
		text = text[len(raw):]
	}
}

// quotations returns what tells whether a text stands in the files, as they are or as the model sees them. Only letters and
// digits are compared: a model may quote with other spaces, quotation marks and escapes.
func quotations(files map[string]string) func(text string) bool {
	var all []string
	for name, content := range files {
		for _, text := range []string{name, content, printable(content)} {
			all = append(all, wordsOf(text))
		}
	}
	return func(text string) bool {
		text = wordsOf(text)
		return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, text) })
	}
}

func wordsOf(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}
