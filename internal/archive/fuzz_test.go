// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Whatever the paths are, they are refused with an *Error or give a canonical archive that unpacks to the same files
// and to nothing else.
func FuzzFromFiles(f *testing.F) {
	for _, seed := range [][2]string{
		{"handler.py", "src/app.py"}, {"a", "a/b"}, {"../a", "/b"}, {"A", "a"}, {"é", "e\u0301"}, {".wh.a", "a"},
		{"a\x00", "C:/x"}, {strings.Repeat("d/", 32) + "x", "\u2025/x"}, {strings.Repeat("x", 300), ""}, {"a/./b", "a//b"},
		{"donn\u00e9es/" + strings.Repeat("\u00e9", 120), strings.Repeat("n", 101) + "/" + strings.Repeat("m", 155)},
	} {
		f.Add(seed[0], seed[1], "content", "app/")
		f.Add(seed[0], seed[1], "", "")
	}
	f.Fuzz(func(t *testing.T, first, second, content, prefix string) {
		if prefix != "" {
			prefix = "app/"
		}
		files := map[string]string{first: content, second: content + "2", "fixed.py": ""}
		packed, err := FromFiles(files, Options{Prefix: prefix})
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("got error %v, want *Error", err)
			}
			if message := err.Error(); !utf8.ValidString(message) || strings.ContainsAny(message, "\n\x00\x1b") {
				t.Fatalf("message %q is not fit to be shown", message)
			}
			return
		}
		want := map[string]string{}
		for name, content := range files {
			want[prefix+name] = content
		}
		dir := t.TempDir()
		if err := Extract(bytes.NewReader(packed.Data), dir, Limits{}); err != nil {
			t.Fatal(err)
		}
		got, _ := readTree(t, dir)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		diffID, err := diffIDOf(bytes.NewReader(packed.Data), DefaultLimits)
		if err != nil || diffID != packed.DiffID {
			t.Fatalf("diff ID is %s (%v), want %s", diffID, err, packed.DiffID)
		}
	})
}

// Whatever the bytes are, nothing is written outside the folder, nothing but files and folders is written, and the
// limits hold.
func FuzzExtract(f *testing.F) {
	packed, err := FromFiles(sampleFiles, Options{Prefix: "app/"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed.Data)
	f.Add(packed.Data[:len(packed.Data)/2])
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add(packTar(f, tar.Header{Typeflag: tar.TypeReg, Name: "../../x", Size: 10}))
	f.Add(packTar(f,
		tar.Header{Typeflag: tar.TypeSymlink, Name: "x", Linkname: "/"},
		tar.Header{Typeflag: tar.TypeReg, Name: "x/y"}))
	f.Add(packTar(f,
		tar.Header{Typeflag: tar.TypeDir, Name: "x/"},
		tar.Header{Typeflag: tar.TypeReg, Name: "x/y", Size: 2 << 20}))
	limits := Limits{MaxTotalBytes: 1 << 20, MaxEntries: 50}
	f.Fuzz(func(t *testing.T, data []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "dir")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		err := Extract(bytes.NewReader(data), dir, limits)
		var refused *Error
		if err != nil && !errors.As(err, &refused) {
			t.Fatalf("got error %v, want *Error", err)
		}
		files, modes := readTree(t, parent)
		total := 0
		for name, content := range files {
			total += len(content)
			if !strings.HasPrefix(name, "dir/") {
				t.Fatalf("%s was written outside the folder", name)
			}
		}
		if total > 1<<20 || len(modes) > 1+50+maxPrefixDepth {
			t.Fatalf("%d bytes in %d entries were written", total, len(modes))
		}
		for name, mode := range modes {
			if !mode.IsRegular() && !mode.IsDir() {
				t.Fatalf("%s has mode %s", name, mode)
			}
		}
	})
}
