// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func isPython(name string) bool { return strings.HasSuffix(name, ".py") }

func TestSelectFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.py": "12345", "lib/b.py": "678", "data.bin": strings.Repeat("x", 5000), "empty.py": ""}
	chosen := map[string][]byte{"a.py": []byte("12345"), "lib/b.py": []byte("678"), "empty.py": {}}
	tests := map[string]struct {
		prefix    string
		pick      func(string) bool
		maxTotal  int64
		want      map[string][]byte
		wantTotal int64
	}{
		"some":          {"app/", isPython, 100, chosen, 8},
		"no prefix":     {"", isPython, 100, chosen, 8},
		"at the limit":  {"app/", isPython, 8, chosen, 8},
		"over it":       {"app/", isPython, 7, nil, 8},
		"far over it":   {"app/", isPython, 4, nil, 8},
		"nothing":       {"app/", func(string) bool { return false }, 100, map[string][]byte{}, 0},
		"other is free": {"app/", isPython, 10, chosen, 8},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			packed, err := FromFiles(files, Options{Prefix: tc.prefix})
			if err != nil {
				t.Fatal(err)
			}
			got, total, err := SelectFiles(bytes.NewReader(packed.Data), tc.pick, tc.maxTotal, Options{Prefix: tc.prefix})
			if err != nil || total != tc.wantTotal {
				t.Errorf("got a total of %d and error %v, want %d", total, err, tc.wantTotal)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSelectFilesOfDamagedArchives(t *testing.T) {
	t.Parallel()
	file := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size}
	}
	good := packTar(t, file("a.py", 3), file("b.py", 100_000))
	tests := map[string]struct {
		data   []byte
		limits Limits
	}{
		"cut":    {data: good[:len(good)-1]},
		"tail":   {data: append(bytes.Clone(good), 'x')},
		"twice":  {data: packTar(t, file("a.py", 0), file("a.py", 0))},
		"limits": {data: packTar(t, file("b.py", 10<<20)), limits: Limits{MaxTotalBytes: 1, MaxEntries: 1}},
		"none":   {},
	}
	if _, _, err := SelectFiles(bytes.NewReader(good), isPython, 10, Options{Prefix: "../"}); err == nil {
		t.Error("a wrong prefix was taken")
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, maxTotal := range []int64{0, 1000, math.MaxInt64} {
				got, _, err := SelectFiles(bytes.NewReader(tc.data), isPython, maxTotal, Options{Limits: tc.limits})
				var refused *Error
				if got != nil || !errors.As(err, &refused) {
					t.Errorf("got %v and error %v, want *Error", got, err)
				}
			}
		})
	}
}

// The digest is judged also when the limit is passed at the very beginning.
func TestSelectFilesReadsToTheEnd(t *testing.T) {
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
		_, total, err := SelectFiles(verified, isPython, 10, Options{})
		var digestErr *DigestError
		if errors.As(err, &digestErr) != (digest != packed.Digest) || (err == nil) != (total > 10) {
			t.Errorf("digest %s: got a total of %d and error %v", digest, total, err)
		}
	}
}
