// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readTar gives the headers of a gzip stream, read with the standard library.
func readTar(t *testing.T, data []byte) []*tar.Header {
	t.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var headers []*tar.Header
	for reader := tar.NewReader(unpacked); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, header)
	}
}

// readTree gives the files below dir and their contents, and the modes of all files and folders.
func readTree(t *testing.T, dir string) (files map[string]string, modes map[string]fs.FileMode) {
	t.Helper()
	files, modes = map[string]string{}, map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		modes[filepath.ToSlash(rel)] = info.Mode()
		if entry.IsDir() {
			return nil
		}
		data, err := os.ReadFile(name)
		files[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, modes
}

var sampleFiles = map[string]string{
	"handler.py":          "def handle(event, context):\n    return {\"ok\": True}\n",
	"requirements.txt":    "requests==2.32.0\n",
	"src/app.py":          "print('a')\n",
	"src/lib/__init__.py": "",
	"src-old/app.py":      "print('b')\n",
	"run.sh":              "#!/bin/sh\necho hello\n",
	"données/été.json":    "{\"été\": 1}",
	strings.Repeat("long-name-", 12) + "/" + strings.Repeat("x", 200) + ".txt": "long",
}

// A change of these digests means that every function gets a new image at the next reconciliation.
const (
	goldenDigest       = "sha256:125b56c37bcd3f6695b5a88489a88741fade8a1e5115a0575b1914a309f92ef3"
	goldenDiffID       = "sha256:822f2bf6712548515afc5af4b70b645c9b8a8857d1811ab9565be24907799715"
	goldenPrefixDigest = "sha256:dde3ca85e1335cedd9a24e565f3d1ab6dd8c60e623eab1f502ad6057af8d77fa"
)

func TestFromFilesGolden(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prefix     string
		wantDigest string
		wantDiffID string
	}{
		"no prefix":   {wantDigest: goldenDigest, wantDiffID: goldenDiffID},
		"prefix":      {prefix: "app/", wantDigest: goldenPrefixDigest},
		"prefix bare": {prefix: "app", wantDigest: goldenPrefixDigest},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := FromFiles(sampleFiles, Options{Prefix: tc.prefix})
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest != tc.wantDigest {
				t.Errorf("digest is %s, want %s", got.Digest, tc.wantDigest)
			}
			if tc.wantDiffID != "" && got.DiffID != tc.wantDiffID {
				t.Errorf("diff ID is %s, want %s", got.DiffID, tc.wantDiffID)
			}
		})
	}
}

func TestFromFilesIsDeterministic(t *testing.T) {
	t.Parallel()
	first, err := FromFiles(sampleFiles, Options{Prefix: "app/"})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // the order of a map differs from pass to pass
		again, err := FromFiles(maps.Clone(sampleFiles), Options{Prefix: "app/"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestFromFilesLayout(t *testing.T) {
	t.Parallel()
	files := map[string]string{"b/z.py": "z", "b-a.py": "#!/bin/sh", "b/a/x.py": "x", "a.py": "", "b0.py": "0"}
	got, err := FromFiles(files, Options{Prefix: "app/"})
	if err != nil {
		t.Fatal(err)
	}
	headers := readTar(t, got.Data)
	var lines []string
	for _, h := range headers {
		lines = append(lines, fmt.Sprintf("%c %o %d %s", h.Typeflag, h.Mode, h.Size, h.Name))
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || !h.ModTime.Equal(modTime) || len(h.PAXRecords) > 0 {
			t.Errorf("header of %s is not canonical: %+v", h.Name, h)
		}
	}
	want := []string{
		"5 755 0 app/", "0 644 0 app/a.py", "0 644 9 app/b-a.py", "5 755 0 app/b/", "5 755 0 app/b/a/",
		"0 644 1 app/b/a/x.py", "0 644 1 app/b/z.py", "0 644 1 app/b0.py",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	// Flags, time and operating system of the gzip header.
	if diff := cmp.Diff([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0}, got.Data[:8]); diff != "" {
		t.Error(diff)
	}
}

func TestFromFilesDigests(t *testing.T) {
	t.Parallel()
	got, err := FromFiles(sampleFiles, Options{Prefix: "app/"})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := ParseDigest(got.Digest)
	if err != nil || digest != got.Digest {
		t.Errorf("digest %q: %v", got.Digest, err)
	}
	verified, err := Verify(io.NopCloser(bytes.NewReader(got.Data)), got.Digest, int64(len(got.Data)))
	if err != nil {
		t.Fatal(err)
	}
	diffID, err := diffIDOf(verified, DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	if diffID != got.DiffID {
		t.Errorf("diff ID is %s, want %s", diffID, got.DiffID)
	}
}

func TestFromFilesRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files       map[string]string
		limits      Limits
		wantPath    string
		wantProblem string
	}{
		"nothing": {wantProblem: "has no files"},
		"total": {
			files: map[string]string{"a": "12345", "b": "12345"}, limits: Limits{MaxTotalBytes: 9},
			wantProblem: "has more than 9 bytes",
		},
		"entries": {
			files: map[string]string{"a/b": "", "c": ""}, limits: Limits{MaxEntries: 2},
			wantProblem: "has more than 2 files and folders",
		},
		"letter case": {
			files: map[string]string{"App.py": "", "app.py": ""}, wantPath: "app.py",
			wantProblem: `differs from "App.py" only in letter case or Unicode form`,
		},
		"folder case": {
			files: map[string]string{"Lib/a.py": "", "lib/b.py": ""}, wantPath: "lib",
			wantProblem: `differs from "Lib" only in letter case or Unicode form`,
		},
		"Unicode form": {
			files: map[string]string{"\u00e9.py": "", "e\u0301.py": ""}, wantPath: "\u00e9.py",
			wantProblem: "differs from \"e\u0301.py\" only in letter case or Unicode form",
		},
		"sharp s": {
			files: map[string]string{"stra\u00dfe": "", "strasse": ""}, wantPath: "stra\u00dfe",
			wantProblem: `differs from "strasse" only in letter case or Unicode form`,
		},
		"file, folder": {
			files: map[string]string{"a": "", "a/b": ""}, wantPath: "a", wantProblem: "is both a file and a folder",
		},
		"folder, file": {
			files: map[string]string{"a/b/c": "", "a/b": "", "a-": ""}, wantPath: "a/b",
			wantProblem: "is both a file and a folder",
		},
		"worst first": {
			files: map[string]string{"../b": "", "../a": "", "ok": ""}, wantPath: "../a",
			wantProblem: "leads out of the source",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FromFiles(tc.files, Options{Limits: tc.limits})
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("got error %v, want *Error", err)
			}
			if diff := cmp.Diff(&Error{Path: tc.wantPath, Problem: tc.wantProblem}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFromFilesAtTheLimits(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("d/", 31) + "f"
	tests := map[string]struct {
		files  map[string]string
		limits Limits
	}{
		"total":   {files: map[string]string{"a": "12345", "b": "1234"}, limits: Limits{MaxTotalBytes: 9}},
		"entries": {files: map[string]string{"a/b": "", "c": ""}, limits: Limits{MaxEntries: 3}},
		"depth":   {files: map[string]string{deep: "x"}},
		"name":    {files: map[string]string{strings.Repeat("n", 255): "x"}},
		"path":    {files: map[string]string{strings.Repeat("n123456/", 31) + strings.Repeat("n", 255): "x"}},
		"inline":  {files: map[string]string{"a": strings.Repeat("x", 512<<10)}, limits: DefaultInlineLimits},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := FromFiles(tc.files, Options{Prefix: "a/b/c/d", Limits: tc.limits})
			if err != nil {
				t.Fatal(err)
			}
			// What is taken in with a prefix is also taken out.
			if err := Extract(bytes.NewReader(got.Data), t.TempDir(), tc.limits); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFromFilesPrefix(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"/", "/app", "../app", "app//", "a/b/c/d/e", ".wh.app", `a\b`} {
		_, err := FromFiles(sampleFiles, Options{Prefix: prefix})
		var refused *Error
		if prefix == "/" {
			if err != nil {
				t.Errorf("prefix %q: %v", prefix, err)
			}
			continue
		}
		if err == nil || errors.As(err, &refused) {
			t.Errorf("prefix %q: got error %v, want one that blames the program", prefix, err)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	opener := func(content string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }
	}
	broken := errors.New("broken")
	tests := map[string]struct {
		entries   []entry
		wantErr   error
		wantError string
	}{
		"shorter": {
			entries:   []entry{{path: "a", size: 3, open: opener("12")}},
			wantError: `"a" does not have the announced size of 3 bytes`,
		},
		"longer": {
			entries:   []entry{{path: "a", size: 3, open: opener("1234")}},
			wantError: `"a" does not have the announced size of 3 bytes`,
		},
		"order": {
			entries:   []entry{{path: "b", open: opener("")}, {path: "a", open: opener("")}},
			wantError: `archive entry "a" comes after "b"`,
		},
		"open": {
			entries: []entry{{path: "a", open: func() (io.ReadCloser, error) { return nil, broken }}},
			wantErr: broken,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWriter(io.Discard)
			var err error
			for _, e := range tc.entries {
				err = errors.Join(err, w.add(e))
			}
			if tc.wantErr != nil && !errors.Is(err, tc.wantErr) {
				t.Errorf("got error %v, want %v", err, tc.wantErr)
			}
			if tc.wantError != "" && (err == nil || err.Error() != tc.wantError) {
				t.Errorf("got error %v, want %s", err, tc.wantError)
			}
		})
	}
}

func TestWriterExecutables(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	entries := []entry{{path: "run", executable: true, size: 1 << 20, open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(zeros{}, 1<<20)), nil
	}}}
	sum, err := writeEntries(&buf, entries, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Size != int64(buf.Len()) {
		t.Errorf("size is %d, want %d", sum.Size, buf.Len())
	}
	dir := t.TempDir()
	if err := Extract(&buf, dir, Limits{}); err != nil {
		t.Fatal(err)
	}
	_, modes := readTree(t, dir)
	if diff := cmp.Diff(map[string]fs.FileMode{"run": 0o755}, modes); diff != "" {
		t.Error(diff)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Uploads are as large as 250 MiB; making their archive must not hold them.
func TestWriterNeedsConstantMemory(t *testing.T) {
	const size, most = 64 << 20, 4 << 20
	entries := []entry{{path: "large", size: size, open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(zeros{}, size)), nil
	}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := writeEntries(io.Discard, entries, Options{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > most {
		t.Errorf("%d bytes were allocated, want at most %d", got, most)
	}
}
