// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// diffIDOf is the SHA-256 of the tar inside an archive, as ReadFiles gives it.
func diffIDOf(r io.Reader, limits Limits) (string, error) {
	_, diffID, err := ReadFiles(r, nil, 0, Options{Limits: limits})
	return diffID, err
}

func TestReadFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{"package.json": "{}", "src/package.json": "other", "empty": "", "app/x": "x", "z": "12345"}
	manifest := map[string][]byte{"package.json": []byte("{}")}
	tests := map[string]struct {
		prefix    string
		names     []string
		maxBytes  int64
		want      map[string][]byte
		wantError string
	}{
		"some":      {"app/", []string{"package.json", "package-lock.json"}, 100, manifest, ""},
		"no prefix": {"", []string{"package.json"}, 100, manifest, ""},
		"nested": {
			"app", []string{"src/package.json", "app/x"}, 100,
			map[string][]byte{"src/package.json": []byte("other"), "app/x": []byte("x")}, "",
		},
		"empty":     {"app/", []string{"empty"}, 0, map[string][]byte{"empty": {}}, ""},
		"folder":    {"app/", []string{"src", "src/"}, 100, map[string][]byte{}, ""},
		"none":      {"app/", nil, 100, map[string][]byte{}, ""},
		"at limit":  {"app/", []string{"z"}, 5, map[string][]byte{"z": []byte("12345")}, ""},
		"too large": {"app/", []string{"z", "empty"}, 4, nil, `"z" has more than 4 bytes`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			packed, err := FromFiles(files, Options{Prefix: tc.prefix})
			if err != nil {
				t.Fatal(err)
			}
			got, diffID, err := ReadFiles(bytes.NewReader(packed.Data), tc.names, tc.maxBytes, Options{Prefix: tc.prefix})
			if want := packed.DiffID; err == nil && diffID != want || err != nil && diffID != "" {
				t.Errorf("got diff ID %q, want %q", diffID, want)
			}
			if (err != nil || tc.wantError != "") && (err == nil || err.Error() != tc.wantError) {
				t.Errorf("got error %v, want %s", err, tc.wantError)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadFilesOfDamagedArchives(t *testing.T) {
	t.Parallel()
	file := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size}
	}
	good := packTar(t, file("a", 3), file("b", 100_000))
	tests := map[string]struct {
		data   []byte
		limits Limits
	}{
		"cut":    {data: good[:len(good)-1]},
		"tail":   {data: append(bytes.Clone(good), 'x')},
		"twice":  {data: packTar(t, file("a", 0), file("a", 0))},
		"limits": {data: packTar(t, file("b", 10<<20)), limits: Limits{MaxTotalBytes: 1, MaxEntries: 1}},
		"none":   {},
	}
	if _, _, err := ReadFiles(bytes.NewReader(good), nil, 10, Options{Prefix: "../"}); err == nil {
		t.Error("a wrong prefix was taken")
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, diffID, err := ReadFiles(bytes.NewReader(tc.data), []string{"a"}, 1000, Options{Limits: tc.limits})
			var refused *Error
			if got != nil || diffID != "" || !errors.As(err, &refused) {
				t.Errorf("got %v, %q and error %v, want *Error", got, diffID, err)
			}
		})
	}
}

// The digest is judged although the wanted file is at the very beginning.
func TestReadFilesReadsToTheEnd(t *testing.T) {
	t.Parallel()
	packed, err := FromFiles(makeSource(20, 50_000), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{packed.Digest, helloDigest} {
		verified, err := Verify(io.NopCloser(bytes.NewReader(packed.Data)), digest, int64(len(packed.Data)))
		if err != nil {
			t.Fatal(err)
		}
		files, _, err := ReadFiles(verified, []string{"pkg00/mod0000.py"}, 1<<20, Options{})
		var digestErr *DigestError
		if errors.As(err, &digestErr) != (digest != packed.Digest) || (err == nil) != (len(files) == 1) {
			t.Errorf("digest %s: got %d files and error %v", digest, len(files), err)
		}
	}
}
