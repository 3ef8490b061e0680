// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// templateWords are control words of the chat templates of common models. Some servers read them also inside a message,
// so that code could end the message and begin one in another role. A space takes their meaning away.
var templateWords = strings.NewReplacer(
	"<|", "< |", "<\uFF5C", "< \uFF5C", "[INST]", "[ INST]", "[/INST]", "[ /INST]", "<<SYS>>", "< <SYS>>", "<</SYS>>", "< </SYS>>",
	"<s>", "< s>", "</s>", "< /s>", "<start_of_turn>", "< start_of_turn>", "<end_of_turn>", "< end_of_turn>",
	"<bos>", "< bos>", "<eos>", "< eos>",
)

// question is the two messages of a review.
type question struct {
	system, user string
}

// newMarker returns 128 random bits. Nobody who wrote code before knows them.
func newMarker() string { return "code-" + rand.Text() }

// ask lays the files out between lines with the marker.
func ask(prompt, marker, runtime string, files map[string]string) question {
	user := &strings.Builder{}
	_, _ = fmt.Fprintf(user, "The runtime is %s. There are %d files.\n", strconv.QuoteToASCII(runtime), len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		// The quoted name is ASCII on one line, whatever the name holds.
		_, _ = fmt.Fprintf(user, "\nBEGIN %s %s\n", marker, templateWords.Replace(strconv.QuoteToASCII(name)))
		user.WriteString(printable(files[name]))
		_, _ = fmt.Fprintf(user, "\nEND %s\n", marker)
	}
	user.WriteString("\n" + closing)
	return question{system: prompt + fmt.Sprintf(protocol, marker), user: user.String()}
}

// printable makes what a model may not see, or may take for something else, visible: control characters, invisible and
// direction-changing ones, and bytes that are no UTF-8 are written as escapes, and control words are broken up.
func printable(text string) string {
	out := &strings.Builder{}
	out.Grow(len(text))
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			_, _ = fmt.Fprintf(out, `\x%02x`, text[i])
		case r == '\n', r == '\t':
			out.WriteRune(r)
		case r == '\r' && strings.HasPrefix(text[i+size:], "\n"): // a line end of Windows
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r), unicode.Is(unicode.Co, r):
			_, _ = fmt.Fprintf(out, `\u{%x}`, r)
		default:
			out.WriteRune(r)
		}
		i += size
	}
	return templateWords.Replace(out.String())
}
