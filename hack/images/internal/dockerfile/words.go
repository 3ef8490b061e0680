// SPDX-License-Identifier: Apache-2.0

package dockerfile

import (
	"fmt"
	"os"
	"strings"
)

// logicalLines joins continued lines and drops comments and empty lines.
func logicalLines(text string) []string {
	var lines []string
	var current strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		body, continued := strings.CutSuffix(line, `\`)
		current.WriteString(body)
		if !continued {
			lines = append(lines, strings.TrimSpace(current.String()))
			current.Reset()
		}
	}
	if current.Len() > 0 {
		lines = append(lines, strings.TrimSpace(current.String()))
	}
	return lines
}

// addPairs reads name=value pairs; a value may be quoted.
func addPairs(into map[string]string, text string) error {
	words, err := split(text)
	if err != nil {
		return err
	}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return fmt.Errorf("%q is not name=value", word)
		}
		into[name] = value
	}
	return nil
}

// split cuts text into words as a shell would, with quotes and backslashes but without variables.
func split(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, c := range text {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case quote == 0 && (c == ' ' || c == '\t'):
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case c == '$' && quote != '\'':
			return nil, fmt.Errorf("variables cannot be used in %q", text)
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%q ends inside a quote", text)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

func unquote(value string) string {
	if words, err := split(value); err == nil && len(words) == 1 {
		return words[0]
	}
	return value
}

// expand puts the defaults of build arguments in: $NAME and ${NAME}.
func expand(text string, args map[string]string) string {
	return os.Expand(text, func(name string) string { return args[name] })
}
