// SPDX-License-Identifier: Apache-2.0

package recipe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecipesOfThisCheckoutLoad(t *testing.T) {
	t.Parallel()
	if _, err := LoadBase(); err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob("../../../../runtimes/*/" + LocalFile)
	if err != nil || len(files) < 2 {
		t.Fatalf("found %d recipes, error %v", len(files), err)
	}
	for _, file := range files {
		if _, err := LoadLocal(filepath.Dir(file)); err != nil {
			t.Error(err)
		}
	}
}

func TestLoadLocal(t *testing.T) {
	t.Parallel()
	npm := func(fields string) string {
		return "npm:\n- {package: x@1.0.0, integrity: sha512-AA, files: [{from: ., to: x}]" + fields + "}\n"
	}
	tests := map[string]struct {
		text    string
		wantErr string // part of the message; empty for none
	}{
		"debian":           {text: "debian: {packages: [ruby]}"},
		"npm":              {text: npm(", arch: amd64")},
		"nothing":          {text: "remove: [a]", wantErr: "neither"},
		"unknown field":    {text: "debian: {package: [ruby]}", wantErr: "package"},
		"option as name":   {text: "debian: {packages: ['--hook=x']}", wantErr: "not a Debian package name"},
		"no exact version": {text: "npm: [{package: 'x@^1'}]", wantErr: "exact version"},
		"npm option":       {text: "npm: [{package: '--x@1.0.0'}]", wantErr: "not a name"},
		"no integrity":     {text: "npm: [{package: x@1.0.0}]", wantErr: "integrity"},
		"no files":         {text: "npm: [{package: x@1.0.0, integrity: sha512-AA}]", wantErr: "files is empty"},
		"bad pattern":      {text: "debian: {packages: [ruby]}\nremove: ['[']", wantErr: "syntax"},
		"path outside":     {text: "debian: {packages: [ruby]}\nlinks: [{path: ../x, to: y}]", wantErr: "clean path"},
		"absolute path":    {text: "debian: {packages: [ruby]}\nfiles: [{path: /x}]", wantErr: "clean path"},
		"bad mode":         {text: "debian: {packages: [ruby]}\nfiles: [{path: x, mode: '9'}]", wantErr: "octal"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, LocalFile), []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := LoadLocal(dir)
			switch {
			case tt.wantErr == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)):
				t.Errorf("error %v, want one with %q", err, tt.wantErr)
			}
		})
	}
	if _, err := LoadLocal(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a recipe: error %v, want fs.ErrNotExist", err)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	key := func(parts ...any) string {
		k, err := Key(parts...)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	same := []any{"a", map[string]int{"x": 1, "y": 2}}
	if key(same...) != key("a", map[string]int{"y": 2, "x": 1}) {
		t.Error("equal parts have different keys")
	}
	for _, other := range [][]any{{"a"}, {"a", map[string]int{"x": 1}}, {"ab"}, {"a", "b"}} {
		if key(other...) == key(same...) {
			t.Errorf("%v has the key of %v", other, same)
		}
	}
}
