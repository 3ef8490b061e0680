// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// packTar makes a tar.gz of entries as they are, canonical or not.
func packTar(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	packed := gzip.NewWriter(&buf)
	w := tar.NewWriter(packed)
	for _, header := range entries {
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, io.LimitReader(zeros{}, header.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestExtract(t *testing.T) {
	t.Parallel()
	packed, err := FromFiles(sampleFiles, Options{Prefix: "app/"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	want := map[string]string{}
	for name, content := range sampleFiles {
		want["app/"+name] = content
	}
	// The second pass finds the tree of the first.
	for range 2 {
		if err := Extract(iotest.OneByteReader(bytes.NewReader(packed.Data)), dir, Limits{}); err != nil {
			t.Fatal(err)
		}
		files, modes := readTree(t, dir)
		if diff := cmp.Diff(want, files); diff != "" {
			t.Error(diff)
		}
		for name, mode := range modes {
			if mode != 0o644 && mode != fs.ModeDir|0o755 {
				t.Errorf("%s has mode %s", name, mode)
			}
		}
	}
}

func TestExtractRefuses(t *testing.T) {
	t.Parallel()
	file := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
	}
	folder := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
	link := func(flag byte) tar.Header { return tar.Header{Typeflag: flag, Name: "a/link", Linkname: "/etc"} }
	tests := map[string]struct {
		entries   []tar.Header
		limits    Limits
		wantError string
	}{
		"parent":        {entries: []tar.Header{file("../a", 1)}, wantError: `"../a" leads out of the source`},
		"parent folder": {entries: []tar.Header{folder("a/../../b/")}, wantError: `"a/../../b" leads out of the source`},
		"absolute":      {entries: []tar.Header{file("/etc/passwd", 1)}, wantError: `"/etc/passwd" is an absolute path`},
		"whiteout": {
			entries:   []tar.Header{file("app/.wh.x", 0)},
			wantError: `"app/.wh.x" has a name that starts with .wh., which deletes files in an image`,
		},
		"symbolic link": {
			entries:   []tar.Header{link(tar.TypeSymlink)},
			wantError: `"a/link" is a symbolic link; only files and folders are taken`,
		},
		"hard link": {
			entries:   []tar.Header{file("x", 1), link(tar.TypeLink)},
			wantError: `"a/link" is a hard link; only files and folders are taken`,
		},
		"device": {
			entries: []tar.Header{link(tar.TypeChar)}, wantError: `"a/link" is a device; only files and folders are taken`,
		},
		"pipe": {
			entries: []tar.Header{link(tar.TypeFifo)}, wantError: `"a/link" is a named pipe; only files and folders are taken`,
		},
		"twice":          {entries: []tar.Header{file("a", 1), file("a", 1)}, wantError: `"a" appears twice`},
		"file as folder": {entries: []tar.Header{file("a", 1), file("a/b", 1)}, wantError: `"a" is both a file and a folder`},
		"total": {
			entries: []tar.Header{file("a", 6), file("b", 5)}, limits: Limits{MaxTotalBytes: 10},
			wantError: "the source has more than 10 bytes",
		},
		"entries": {
			entries: []tar.Header{file("1", 0), file("2", 0), file("3", 0), file("4", 0), file("5", 0), file("6", 0)},
			limits:  Limits{MaxEntries: 1}, wantError: "the source has more than 5 files and folders",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			dir := filepath.Join(parent, "dir")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			err := Extract(bytes.NewReader(packTar(t, tc.entries...)), dir, tc.limits)
			var refused *Error
			if !errors.As(err, &refused) || err.Error() != tc.wantError {
				t.Errorf("got error %v, want %s", err, tc.wantError)
			}
			if _, modes := readTree(t, parent); len(modes) > 1 {
				for name := range modes {
					if name != "dir" && !strings.HasPrefix(name, "dir/") {
						t.Errorf("%s was written outside the folder", name)
					}
				}
			}
		})
	}
}

func TestExtractStaysInsideLinks(t *testing.T) {
	t.Parallel()
	packed, err := FromFiles(map[string]string{"a/b.py": "new", "c.py": "new"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	outside, dir := t.TempDir(), t.TempDir()
	victim := filepath.Join(outside, "b.py")
	for _, err := range []error{
		os.WriteFile(victim, []byte("old"), 0o644),
		os.Symlink(outside, filepath.Join(dir, "a")),
		os.Symlink(victim, filepath.Join(dir, "c.py")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := Extract(bytes.NewReader(packed.Data), dir, Limits{}); err != nil {
		t.Fatal(err)
	}
	files, _ := readTree(t, outside)
	if diff := cmp.Diff(map[string]string{"b.py": "old"}, files); diff != "" {
		t.Error(diff)
	}
	files, _ = readTree(t, dir)
	if diff := cmp.Diff(map[string]string{"a/b.py": "new", "c.py": "new"}, files); diff != "" {
		t.Error(diff)
	}
}

func TestExtractIgnoresUmask(t *testing.T) {
	packed, err := FromFiles(map[string]string{"a/b.py": "x"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	setUmask(t, 0o077)
	if err := Extract(bytes.NewReader(packed.Data), dir, Limits{}); err != nil {
		t.Fatal(err)
	}
	_, modes := readTree(t, dir)
	if diff := cmp.Diff(map[string]fs.FileMode{"a": fs.ModeDir | 0o755, "a/b.py": 0o644}, modes); diff != "" {
		t.Error(diff)
	}
}

func TestDamagedArchives(t *testing.T) {
	t.Parallel()
	good := packTar(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 100_000})
	flipped := bytes.Clone(good)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	bomb := packTar(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 20 << 20})
	broken := errors.New("broken")

	tests := map[string]struct {
		source     io.Reader
		wantErr    error // when the source is to blame
		wantPrefix string
	}{
		"empty": {source: bytes.NewReader(nil), wantPrefix: "the source is no readable tar.gz archive: EOF"},
		"no gzip": {
			source:     strings.NewReader("PK\x03\x04 something else"),
			wantPrefix: "the source is no readable tar.gz archive: gzip",
		},
		"cut": {
			source:     bytes.NewReader(good[:len(good)/2]),
			wantPrefix: "the source is no readable tar.gz archive: unexpected EOF",
		},
		"cut end": {
			source:     bytes.NewReader(good[:len(good)-1]),
			wantPrefix: "the source is no readable tar.gz archive: unexpected EOF",
		},
		"checksum": {
			source: bytes.NewReader(flipped), wantPrefix: "the source is no readable tar.gz archive: gzip: invalid checksum",
		},
		"tail": {
			source:     bytes.NewReader(append(bytes.Clone(good), 'x')),
			wantPrefix: "the source has data after the end of its archive",
		},
		"members": {
			source:     bytes.NewReader(append(bytes.Clone(good), good...)),
			wantPrefix: "the source has data after the end of its archive",
		},
		"bomb": {source: bytes.NewReader(bomb), wantPrefix: "the source has more than"},
		"unreadable": {
			source:  io.MultiReader(bytes.NewReader(good[:50]), iotest.ErrReader(broken)),
			wantErr: broken, wantPrefix: "reading archive: broken",
		},
	}
	limits := Limits{MaxTotalBytes: 1 << 20, MaxEntries: 10}
	for name, tc := range tests {
		data, err := io.ReadAll(tc.source)
		again := func() io.Reader {
			if err != nil {
				return io.MultiReader(bytes.NewReader(data), iotest.ErrReader(err))
			}
			return bytes.NewReader(data)
		}
		runs := map[string]func(t *testing.T) error{
			"extract": func(t *testing.T) error { return Extract(again(), t.TempDir(), limits) },
			"diff ID": func(*testing.T) error {
				_, err := diffIDOf(again(), limits)
				return err
			},
		}
		for run, do := range runs {
			t.Run(name+"/"+run, func(t *testing.T) {
				t.Parallel()
				err := do(t)
				var refused *Error
				if got := errors.As(err, &refused); got == (tc.wantErr != nil) {
					t.Errorf("error %v: is *Error: %t", err, got)
				}
				if tc.wantErr != nil && !errors.Is(err, tc.wantErr) {
					t.Errorf("got error %v, want %v", err, tc.wantErr)
				}
				if err == nil || !strings.HasPrefix(err.Error(), tc.wantPrefix) {
					t.Errorf("got error %v, want %s", err, tc.wantPrefix)
				}
			})
		}
	}
}

// Headers that announce nothing but more headers have no content that a total could bound.
func TestExtractBoundsHeaders(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	packed := gzip.NewWriter(&buf)
	one := paxHeader(t)
	for range 4000 {
		if _, err := packed.Write(one); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	err := Extract(&buf, t.TempDir(), Limits{MaxTotalBytes: 1 << 10, MaxEntries: 5})
	var refused *Error
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "bytes unpacked") {
		t.Errorf("got error %v, want one about the unpacked size", err)
	}
}

// paxHeader gives the two blocks of a PAX header without the entry that it is for.
func paxHeader(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	header := tar.Header{Typeflag: tar.TypeReg, Name: "é", Format: tar.FormatPAX}
	if err := tar.NewWriter(&buf).WriteHeader(&header); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()[:1024]
}

func TestExtractWithoutTarget(t *testing.T) {
	t.Parallel()
	err := Extract(bytes.NewReader(nil), filepath.Join(t.TempDir(), "missing"), Limits{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v", err)
	}
}
