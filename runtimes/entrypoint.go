// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// EntrypointFile returns the file and the function that an entrypoint, <file without extension>.<function>, stands
// for. exists tells whether the source has a file. Errors are for the user.
func (r Runtime) EntrypointFile(entrypoint string, exists func(file string) bool) (file, function string, err error) {
	stem, function, err := splitEntrypoint(entrypoint)
	if err != nil {
		return "", "", err
	}
	if slices.Contains(r.Extensions, "."+function) {
		return "", "", fmt.Errorf("entrypoint %q names a file, want <file without extension>.<function> such as %s",
			entrypoint, r.DefaultEntrypoint)
	}
	candidates := make([]string, 0, len(r.Extensions))
	for _, extension := range r.Extensions {
		if exists(stem + extension) {
			return stem + extension, function, nil
		}
		candidates = append(candidates, stem+extension)
	}
	return "", "", fmt.Errorf("entrypoint %q needs a file %s, which the source does not have",
		entrypoint, strings.Join(candidates, " or "))
}

// splitEntrypoint takes an entrypoint apart at its last dot and refuses paths that leave the source.
func splitEntrypoint(entrypoint string) (stem, function string, err error) {
	dot := strings.LastIndexByte(entrypoint, '.')
	if dot <= 0 || !isName(entrypoint[dot+1:]) {
		return "", "", fmt.Errorf("entrypoint %q is not <file without extension>.<function>", entrypoint)
	}
	stem = entrypoint[:dot]
	if strings.HasPrefix(stem, "/") || path.Clean(stem) != stem || stem == ".." || strings.HasPrefix(stem, "../") ||
		strings.ContainsAny(stem, "\\\x00\n\r") || strings.HasSuffix(stem, ".") {
		return "", "", fmt.Errorf("entrypoint %q names no plain path inside the source", entrypoint)
	}
	return stem, entrypoint[dot+1:], nil
}

// isName tells whether text can be the name of a function in the usual languages.
func isName(text string) bool {
	for i, c := range text {
		letter := c == '_' || c == '$' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}
