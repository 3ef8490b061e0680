// SPDX-License-Identifier: Apache-2.0

package image

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestSave(t *testing.T) {
	t.Parallel()
	for server, start := range registries {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			host, _ := start(t)
			r := newTestRegistry(t, host)
			base := makeBase(t, types.OCIManifestSchema1)
			ref := pushImage(t, r, host+"/runtime:v1", base)
			dir := t.TempDir()
			path, err := r.Save(t.Context(), ref, dir)
			if err != nil {
				t.Fatal(err)
			}
			want, err := base.Digest()
			if err != nil {
				t.Fatal(err)
			}
			if path != filepath.Join(dir, want.String()) {
				t.Errorf("the file is %s, want its digest as its name, %s", path, want)
			}
			img, err := tarball.ImageFromPath(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate.Image(img); err != nil {
				t.Error(err)
			}
			if _, err := r.Save(t.Context(), host+"/runtime:v1", dir); err == nil {
				t.Error("an image without a digest was saved")
			}
			if _, err := r.Save(t.Context(), host+"/other@"+want.String(), dir); !IsNotFound(err) {
				t.Errorf("a missing image: got %v", err)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("the folder has %v, %v, want one file", entries, err)
			}
		})
	}
}
