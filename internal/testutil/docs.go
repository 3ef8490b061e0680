// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// DocExample is a block of YAML in the documents.
type DocExample struct {
	// Where is the file and the line at which it begins.
	Where string
	YAML  string
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// DocExamples returns the blocks of YAML in README.md and docs/, split at `---`.
func DocExamples() ([]DocExample, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	var examples []DocExample
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, at := range yamlBlock.FindAllSubmatchIndex(text, -1) {
			line := 1 + strings.Count(string(text[:at[2]]), "\n")
			for part := range strings.SplitSeq(string(text[at[2]:at[3]]), "\n---\n") {
				examples = append(examples, DocExample{Where: fmt.Sprintf("%s:%d", filepath.Base(file), line), YAML: part})
				line += strings.Count(part, "\n") + 2
			}
		}
	}
	return examples, nil
}

// moduleRoot returns the folder of go.mod. Tests run in the folder of their package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no folder above has a go.mod")
		}
		dir = parent
	}
	return "", err
}
