// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/internal/archive"
	slesstest "github.com/naeel/sless/internal/testutil"
	"github.com/naeel/sless/runtimes"
)

func TestReviewable(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"handler.py": true, "a.js": true, "a.ts": true, "a.mjs": true, "a.cjs": true, "package.json": true, "a.yaml": true,
		"a.yml": true, "requirements.txt": true, "run.sh": true, "q.sql": true, "main.go": true, "lib/deep/x.py": true,
		"UPPER.PY": true, "node_modules.py": true, "x/node_modules.d/a.js": true,
		"logo.png": false, "lib.so": false, "a.pyc": false, "Makefile": false, ".npmrc": false, "py": false, "a.py/": false,
		"a.jsx": false, "node_modules/a.js": false, "x/node_modules/b/index.js": false, "": false,
	}
	for name, want := range tests {
		if got := Reviewable(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

// The same files are chosen from a map and from an archive, and the same limit holds.
func TestSelectAndReadArchive(t *testing.T) {
	t.Parallel()
	most := strings.Repeat("x", MaxReviewBytes-4)
	tests := map[string]struct {
		files     map[string]string
		want      map[string]string
		wantBytes int64 // when too large
	}{
		"text only": {
			files: map[string]string{"handler.py": "1", "lib/a.js": "2", "logo.png": "\x89PNG", "node_modules/a/b.js": "3"},
			want:  map[string]string{"handler.py": "1", "lib/a.js": "2"},
		},
		"none":             {files: map[string]string{"logo.png": "x"}, want: map[string]string{}},
		"at the limit":     {files: map[string]string{"a.py": most, "b.py": "1234"}, want: map[string]string{"a.py": most, "b.py": "1234"}},
		"over the limit":   {files: map[string]string{"a.py": most, "b.py": "12345"}, wantBytes: MaxReviewBytes + 1},
		"others are large": {files: map[string]string{"a.py": "1", "b.bin": most + most}, want: map[string]string{"a.py": "1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			packed, err := archive.FromFiles(tc.files, archive.Options{Prefix: archive.CodePrefix})
			if err != nil {
				t.Fatal(err)
			}
			fromArchive, archiveErr := ReadArchive(bytes.NewReader(packed.Data))
			fromMap, mapErr := Select(tc.files)
			for _, err := range []error{archiveErr, mapErr} {
				tooLarge, ok := errors.AsType[*TooLargeError](err)
				if ok != (tc.wantBytes > 0) || ok && tooLarge.Bytes != tc.wantBytes || err != nil && !ok {
					t.Errorf("got error %v, want %d bytes too many", err, tc.wantBytes)
				}
			}
			if diff := cmp.Diff(tc.want, fromArchive); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, fromMap); diff != "" {
				t.Errorf("map (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadArchiveOfGarbage(t *testing.T) {
	t.Parallel()
	if _, err := ReadArchive(strings.NewReader("no archive")); err == nil {
		t.Error("garbage was read")
	}
}

func TestInlineDigest(t *testing.T) {
	t.Parallel()
	rt := runtimes.Runtime{Dependencies: runtimes.Dependencies{Secret: []string{".npmrc"}}}
	plain, err := InlineDigest(map[string]string{"handler.js": "1"}, rt)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := InlineDigest(map[string]string{"handler.js": "1", ".npmrc": "token"}, rt)
	if err != nil || secret != plain {
		t.Errorf("a file for the build alone changes the digest: %s, %s, %v", plain, secret, err)
	}
	if _, err := InlineDigest(map[string]string{"../x": ""}, rt); err == nil {
		t.Error("a path out of the folder was taken")
	}
}

func TestInlineSubmission(t *testing.T) {
	t.Parallel()
	fn := slesstest.MakeFunction("cart", "shop").File("handler.py", "x = 1").File("logo.png", "binary").Obj()
	s, err := InlineSubmission(fn, runtimes.Runtime{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := s.Files(t.Context())
	if diff := cmp.Diff(map[string]string{"handler.py": "x = 1"}, files); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if s.Namespace != "shop" || s.Name != "cart" || s.Runtime != "python3.11" || !strings.HasPrefix(s.Digest, "sha256:") {
		t.Errorf("got %+v", s)
	}
	fn.Spec.Source.Inline.Files["../x"] = ""
	if _, err := InlineSubmission(fn, runtimes.Runtime{}); err == nil {
		t.Error("a path out of the folder was taken")
	}
}
