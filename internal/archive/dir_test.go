// SPDX-License-Identifier: Apache-2.0

//go:build unix

package archive

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeTree writes files below a new folder.
func writeTree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func openRoot(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func TestFromDirEqualsFromFiles(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	for round := range 20 {
		files := sampleFiles
		if round > 0 {
			files = randomFiles(random)
		}
		want, err := FromFiles(files, Options{Prefix: "app/"})
		if err != nil {
			t.Fatal(err)
		}
		dir := writeTree(t, files)
		for _, extra := range []string{".git/objects", "empty/.GIT"} {
			if err := os.MkdirAll(filepath.Join(dir, extra), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("HEAD", filepath.Join(dir, ".git", "link")); err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		sum, err := FromDir(openRoot(t, dir), &buf, Options{Prefix: "app/"})
		if err != nil {
			t.Fatal(err)
		}
		checkSummary(t, sum, buf.Bytes(), Options{Prefix: "app/"})
		if got := (&Archive{Digest: sum.Digest, DiffID: sum.DiffID, Data: buf.Bytes()}); !cmp.Equal(want, got) {
			t.Fatalf("round %d: the folder gives %s, the files give %s", round, got.Digest, want.Digest)
		}
	}
}

func TestFromDirKeepsExecutables(t *testing.T) {
	t.Parallel()
	dir := writeTree(t, map[string]string{"run": "x", "d/run": "x", "d/file": "x"})
	for name, mode := range map[string]os.FileMode{"run": 0o700, "d/run": 0o610} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	var buf bytes.Buffer
	if _, err := FromDir(openRoot(t, dir), &buf, Options{}); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, header := range readTar(t, buf.Bytes()) {
		got[header.Name] = header.Mode
	}
	if diff := cmp.Diff(map[string]int64{"run": 0o755, "d/": 0o755, "d/run": 0o755, "d/file": 0o644}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFromDirRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files     map[string]string
		make      func(dir string) error
		wantError string
	}{
		"link": {
			make:      func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "x")) },
			wantError: `"x" is a symbolic link; only files and folders are taken`,
		},
		"link to folder": {
			make:      func(dir string) error { return os.Symlink(".", filepath.Join(dir, "x")) },
			wantError: `"x" is a symbolic link; only files and folders are taken`,
		},
		"pipe": {
			make:      func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "x"), 0o600) },
			wantError: `"x" is a named pipe; only files and folders are taken`,
		},
		"socket": {
			make: func(dir string) error {
				fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
				if err != nil {
					return err
				}
				defer syscall.Close(fd) //nolint:errcheck // it is never used
				return syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Join(dir, "x")})
			},
			wantError: `"x" is a socket; only files and folders are taken`,
		},
		"not UTF-8": {files: map[string]string{"\xff": ""}, wantError: `"\xff" is not valid UTF-8`},
		"backslash": {files: map[string]string{`a\b`: ""}, wantError: `"a\\b" has a backslash; folders are separated by /`},
		"whiteout": {
			files:     map[string]string{".wh.a": ""},
			wantError: `".wh.a" has a name that starts with .wh., which deletes files in an image`,
		},
		"letter case": {
			files:     map[string]string{"A": "", "a": ""},
			wantError: `"a" differs from "A" only in letter case or Unicode form`,
		},
		"nothing":  {wantError: "the source has no files"},
		"only git": {files: map[string]string{".git/HEAD": ""}, wantError: "the source has no files"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := writeTree(t, tc.files)
			if tc.make != nil {
				if err := tc.make(dir); err != nil {
					t.Fatal(err)
				}
			}
			_, err := FromDir(openRoot(t, dir), io.Discard, Options{})
			var refused *Error
			if !errors.As(err, &refused) || err.Error() != tc.wantError {
				t.Errorf("got error %v, want %s", err, tc.wantError)
			}
		})
	}
}

func TestFromDirLimits(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files     map[string]string
		limits    Limits
		wantError string
	}{
		"depth": {
			files: map[string]string{"a/b/c/d": ""}, limits: Limits{MaxDepth: 2}, wantError: `"a/b/c" is nested too deeply`,
		},
		"total": {
			files: map[string]string{"a": "12345", "b": "12345"}, limits: Limits{MaxTotalBytes: 9},
			wantError: "the source has more than 9 bytes",
		},
		"entries": {
			files: map[string]string{"a/b": "", "c": ""}, limits: Limits{MaxEntries: 2},
			wantError: "the source has more than 2 files and folders",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FromDir(openRoot(t, writeTree(t, tc.files)), io.Discard, Options{Limits: tc.limits})
			var refused *Error
			if !errors.As(err, &refused) || err.Error() != tc.wantError {
				t.Errorf("got error %v, want %s", err, tc.wantError)
			}
		})
	}
}

// What changes between the walk and the reading is noticed, and nothing outside is read.
func TestFromDirChanged(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(writeTree(t, map[string]string{"secret": "secret"}), "secret")
	tests := map[string]struct {
		change    func(name string) error
		wantError string
	}{
		"longer": {
			func(name string) error { return os.WriteFile(name, []byte("longer than before"), 0o600) },
			`does not have the announced size of 6 bytes`,
		},
		"shorter": {func(name string) error { return os.Truncate(name, 1) }, `does not have the announced size of 6 bytes`},
		"gone":    {os.Remove, "no such file"},
		"pipe": {
			func(name string) error { return errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)) },
			`is no longer a file`,
		},
		"link": {
			func(name string) error { return errors.Join(os.Remove(name), os.Symlink(outside, name)) }, "path escapes",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := writeTree(t, map[string]string{"d/x": "before"})
			walk := &dirWalk{root: openRoot(t, dir), limits: DefaultLimits}
			if err := walk.folder("."); err != nil {
				t.Fatal(err)
			}
			if err := tc.change(filepath.Join(dir, "d/x")); err != nil {
				t.Fatal(err)
			}
			_, err := writeEntries(io.Discard, walk.entries, Options{})
			if err == nil || !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("got error %v, want one with %s", err, tc.wantError)
			}
		})
	}
}
