// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
)

func TestWithout(t *testing.T) {
	t.Parallel()
	source := map[string]string{
		".npmrc": "//registry.example.com/:_authToken=s3cret", "handler.js": "exports.handle = () => 1", "lib/a.js": "1",
		"lib/.npmrc": "not the one", "only/.npmrc.d/x": "1",
	}
	tests := map[string]struct {
		names    []string
		wantLeft []string
	}{
		"one of them":              {names: []string{".npmrc"}, wantLeft: []string{"handler.js", "lib/.npmrc", "lib/a.js", "only/.npmrc.d/x"}},
		"none":                     {names: []string{"pip.conf"}, wantLeft: []string{".npmrc", "handler.js", "lib/.npmrc", "lib/a.js", "only/.npmrc.d/x"}},
		"all that a folder holds":  {names: []string{"only/.npmrc.d/x"}, wantLeft: []string{".npmrc", "handler.js", "lib/.npmrc", "lib/a.js"}},
		"the name with the prefix": {names: []string{"app/.npmrc"}, wantLeft: []string{".npmrc", "handler.js", "lib/.npmrc", "lib/a.js", "only/.npmrc.d/x"}},
	}
	opt := Options{Prefix: "app/"}
	packed, err := FromFiles(source, opt)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := map[string]string{}
			for _, name := range tc.wantLeft {
				left[name] = source[name]
			}
			want, err := FromFiles(left, opt)
			if err != nil {
				t.Fatal(err)
			}
			out := &bytes.Buffer{}
			got, err := Without(bytes.NewReader(packed.Data), out, tc.names, opt)
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest != want.Digest || got.DiffID != want.DiffID || !bytes.Equal(out.Bytes(), want.Data) {
				t.Errorf("it is not the archive of %v", tc.wantLeft)
			}
			if got.Size != int64(out.Len()) {
				t.Errorf("size %d, want %d", got.Size, out.Len())
			}
		})
	}
}

func TestWithoutKeepsModesAndCounts(t *testing.T) {
	t.Parallel()
	opt := Options{Prefix: "app/"}
	entries := func(names ...string) []entry {
		list := []entry{}
		for _, name := range names {
			list = append(list, entry{path: name, size: 3, executable: name == "run.sh", open: func() (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader("abc")), nil
			}})
		}
		return list
	}
	all, wanted := &bytes.Buffer{}, &bytes.Buffer{}
	if _, err := writeEntries(all, entries("a/b.txt", "pip.conf", "run.sh"), opt); err != nil {
		t.Fatal(err)
	}
	want, err := writeEntries(wanted, entries("a/b.txt", "run.sh"), opt)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Without(all, io.Discard, []string{"pip.conf"}, opt)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}

func TestWithoutRefuses(t *testing.T) {
	t.Parallel()
	opt := Options{Prefix: "app/"}
	packed, err := FromFiles(map[string]string{".npmrc": "x"}, opt)
	if err != nil {
		t.Fatal(err)
	}
	broken := bytes.Clone(packed.Data)
	broken[len(broken)/2] ^= 0xff
	tests := map[string]struct {
		data []byte
		want string
	}{
		"nothing left":    {data: packed.Data, want: "has no files"},
		"damaged":         {data: broken, want: "no readable tar.gz"},
		"no gzip":         {data: []byte("PK"), want: "no readable tar.gz"},
		"more at the end": {data: append(bytes.Clone(packed.Data), 'x'), want: "data after the end"},
		"a link":          {data: tarGz(t, &tar.Header{Name: "app/a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}), want: "canonical"},
		"another prefix":  {data: tarGz(t, &tar.Header{Name: "etc/a", Typeflag: tar.TypeReg}), want: "canonical"},
		"not sorted": {want: "canonical", data: tarGz(t, &tar.Header{Name: "app/b", Typeflag: tar.TypeReg},
			&tar.Header{Name: "app/a", Typeflag: tar.TypeReg})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Without(bytes.NewReader(tc.data), io.Discard, []string{".npmrc"}, opt)
			problem, ok := errors.AsType[*Error](err)
			if !ok || !strings.Contains(problem.Error(), tc.want) {
				t.Errorf("error %v, want an *Error with %q", err, tc.want)
			}
		})
	}
	failing := errors.New("the store went away")
	_, err = Without(io.MultiReader(bytes.NewReader(packed.Data[:20]), &failingReader{failing}), io.Discard, nil, opt)
	if !errors.Is(err, failing) {
		t.Errorf("error %v, want %v", err, failing)
	}
}

type failingReader struct{ err error }

func (r *failingReader) Read([]byte) (int, error) { return 0, r.err }

func tarGz(t *testing.T, headers ...*tar.Header) []byte {
	t.Helper()
	out := &bytes.Buffer{}
	packed := gzip.NewWriter(out)
	w := tar.NewWriter(packed)
	for _, header := range headers {
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
