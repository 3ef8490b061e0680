// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/internal/testutil"
)

func TestTheExamplesOfTheDocumentsAreTaken(t *testing.T) {
	t.Parallel()
	examples, err := testutil.DocExamples()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, example := range examples {
		given := map[string]any{}
		if yaml.Unmarshal([]byte(example.YAML), &given) != nil || !isConfiguration(given) {
			continue
		}
		tried++
		t.Run(example.Where, func(t *testing.T) {
			t.Parallel()
			// What the example says is put over a complete configuration.
			merged := map[string]any{}
			if err := yaml.Unmarshal([]byte(complete), &merged); err != nil {
				t.Fatal(err)
			}
			for section, settings := range given {
				into, _ := merged[section].(map[string]any)
				if into == nil {
					merged[section] = settings
					continue
				}
				for name, value := range settings.(map[string]any) {
					into[name] = value
				}
			}
			text, err := yaml.Marshal(merged)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(path, func(string) string { return "" }); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
	if tried < 3 {
		t.Errorf("only %d examples were found", tried)
	}
}

var sections = []string{"registry", "objectStore", "builds", "git", "functions", "gateway", "cleanup", "scaling"}

// isConfiguration tells whether YAML is meant as a part of the configuration: nothing else begins with these words.
func isConfiguration(given map[string]any) bool {
	for section := range given {
		if !slices.Contains(sections, section) {
			return false
		}
	}
	return len(given) > 0
}
