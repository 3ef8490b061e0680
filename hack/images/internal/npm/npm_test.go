// SPDX-License-Identifier: Apache-2.0

package npm

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/hack/images/internal/layer"
	"github.com/naeel/sless/hack/images/internal/recipe"
)

func TestUnpack(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	err := layer.Tree{
		"package/bin/node":   layer.File(0o644, []byte("n")),
		"package/lib":        {Type: layer.Dir(0).Type, Mode: 0o700, UID: 1000},
		"package/lib/run.sh": {Type: layer.File(0, nil).Type, Mode: 0o775, UID: 1000, Data: []byte("r")},
		"package/library":    layer.File(0o600, []byte("l")),
	}.WriteTar(zw)
	if err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		files   []recipe.Copy
		want    layer.Tree
		wantErr string
	}{
		"one file, with a mode": {
			files: []recipe.Copy{{From: "bin/node", To: "usr/bin/nodejs", Mode: "0755"}},
			want:  layer.Tree{"usr/bin/nodejs": layer.File(0o755, []byte("n"))},
		},
		"a directory": {
			files: []recipe.Copy{{From: "lib", To: "opt/x"}},
			want:  layer.Tree{"opt/x": layer.Dir(0o755), "opt/x/run.sh": layer.File(0o755, []byte("r"))},
		},
		"all of it": {
			files: []recipe.Copy{{From: ".", To: "p"}},
			want: layer.Tree{
				"p/bin/node": layer.File(0o644, []byte("n")), "p/lib": layer.Dir(0o755),
				"p/lib/run.sh": layer.File(0o755, []byte("r")), "p/library": layer.File(0o644, []byte("l")),
			},
		},
		"missing": {files: []recipe.Copy{{From: "nothing", To: "p"}}, wantErr: "has no nothing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := unpack(buf.Bytes(), recipe.NPMPackage{Package: "x@1.0.0", Files: tt.files})
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("error %v, want one with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilesWantsAPackageForTheArchitecture(t *testing.T) {
	t.Parallel()
	packages := []recipe.NPMPackage{{Package: "x@1.0.0", Arch: "riscv64"}}
	if _, err := Files(t.Context(), packages, "amd64"); err == nil || !strings.Contains(err.Error(), "amd64") {
		t.Errorf("error %v, want one that names the architecture", err)
	}
}

func TestIntegrity(t *testing.T) {
	t.Parallel()
	const want = "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="
	if got := integrity(nil); got != want {
		t.Errorf("integrity of nothing is %s, want %s", got, want)
	}
}
