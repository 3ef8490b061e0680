// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// builtImage gives what a build on base makes of it: the base and one more layer.
func builtImage(t *testing.T, base v1.Image) v1.Image {
	t.Helper()
	layer, err := newLayer(t.Context(), sampleLayer(t), types.DockerLayer)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(base, layer)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func writeTarball(t *testing.T, img v1.Image) string {
	t.Helper()
	tag, err := name.NewTag("example.com/built:1")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(path, tag, img); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPushTarball(t *testing.T) {
	t.Parallel()
	for server, start := range registries {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			host, counter := start(t)
			r := newTestRegistry(t, host)
			base := makeBase(t, types.DockerManifestSchema2)
			baseRef := pushImage(t, r, host+"/runtime:v1", base)
			path := writeTarball(t, builtImage(t, base))
			counter.take()

			digest, err := r.PushTarball(t.Context(), PushRequest{Path: path, Target: host + "/deps:1", Base: baseRef})
			if err != nil {
				t.Fatal(err)
			}
			img := pullImage(t, r, host+"/deps@"+digest)
			if err := validate.Image(img); err != nil {
				t.Error(err)
			}
			manifest, err := img.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			_, _, _, blobBytes := counter.take()
			if want := manifest.Layers[2].Size + manifest.Config.Size; blobBytes != want {
				t.Errorf("%d bytes were sent, want %d: new layer and configuration", blobBytes, want)
			}
			again, err := r.PushTarball(t.Context(), PushRequest{Path: path, Target: host + "/deps:1"})
			if err != nil || again != digest {
				t.Errorf("again: got %s, %v, want %s", again, err, digest)
			}
			if _, _, manifests, blobBytes := counter.take(); manifests != 0 || blobBytes != 0 {
				t.Errorf("again: %d manifests and %d bytes were sent", manifests, blobBytes)
			}
			if alone, err := r.PushTarball(t.Context(), PushRequest{Path: path, Target: host + "/alone:1"}); err != nil || alone != digest {
				t.Errorf("without base: got %s, %v, want %s", alone, err, digest)
			}
			// A base without the layers does no harm.
			other, err := r.PushTarball(t.Context(), PushRequest{Path: path, Target: host + "/other:1", Base: host + "/none:1"})
			if err != nil || other != digest {
				t.Errorf("with another base: got %s, %v, want %s", other, err, digest)
			}
		})
	}
}

// What the file says of itself was written where code of the user ran.
func TestPushTarballSetsLabels(t *testing.T) {
	t.Parallel()
	host, counter := startRegistry(t)
	r := newTestRegistry(t, host)
	base := makeBase(t, types.DockerManifestSchema2)
	baseRef := pushImage(t, r, host+"/runtime:v1", base)
	forged, err := mutate.Config(builtImage(t, base), v1.Config{
		Labels: map[string]string{"sless.io/namespace": "victim", "kept": "yes"}, Entrypoint: []string{"/sless/watchdog"},
	})
	if err != nil {
		t.Fatal(err)
	}
	counter.take()
	digest, err := r.PushTarball(t.Context(), PushRequest{
		Path: writeTarball(t, forged), Target: host + "/code:1", Base: baseRef,
		Labels: map[string]string{"sless.io/namespace": "shop"},
	})
	if err != nil {
		t.Fatal(err)
	}
	labels, err := r.Labels(t.Context(), host+"/code@"+digest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"sless.io/namespace": "shop", "kept": "yes"}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	img := pullImage(t, r, host+"/code@"+digest)
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/sless/watchdog"}, file.Config.Entrypoint); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, sent := counter.take(); sent != manifest.Layers[2].Size+manifest.Config.Size {
		t.Errorf("%d bytes were sent, want only the new layer and the configuration", sent)
	}
}

func TestPushTarballRefuses(t *testing.T) {
	t.Parallel()
	host, counter := startRegistry(t)
	r := newTestRegistry(t, host)
	const manifest = `[{"Config":"config","Layers":["layer.tar.gz"]}]`
	entry := func(name, content string) tar.Header {
		return tar.Header{Name: name, Size: int64(len(content)), Linkname: content, Typeflag: tar.TypeReg}
	}
	complete := []tar.Header{entry("config", "{}"), entry("layer.tar.gz", "x"), entry("manifest.json", manifest)}
	tests := map[string]struct {
		entries   []tar.Header // the content is in Linkname
		target    string
		wantError string
	}{
		"empty":      {wantError: "it has 0 images"},
		"two images": {entries: []tar.Header{entry("manifest.json", `[{},{}]`)}, wantError: "it has 2 images"},
		"no JSON":    {entries: []tar.Header{entry("manifest.json", `{`)}, wantError: "its manifest"},
		"no config":  {entries: complete[1:], wantError: "its configuration is missing"},
		"no layer":   {entries: []tar.Header{complete[0], complete[2]}, wantError: `its layer "layer.tar.gz" is missing`},
		"twice": {
			entries: append([]tar.Header{complete[0]}, complete...), wantError: `entry "config" appears twice`,
		},
		"link": {
			entries:   []tar.Header{{Name: "config", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}},
			wantError: `entry "config" is no file`,
		},
		"large manifest": {
			entries:   []tar.Header{entry("manifest.json", strings.Repeat(" ", maxDocument+1))},
			wantError: "its manifest is too large",
		},
		"large config": {
			entries:   []tar.Header{entry("config", strings.Repeat(" ", maxDocument+1)), complete[1], complete[2]},
			wantError: "its configuration is missing or too large",
		},
		"layers elsewhere": {
			entries: []tar.Header{complete[0], complete[1], entry("manifest.json",
				`[{"Config":"config","Layers":["layer.tar.gz"],"LayerSources":{"sha256:`+strings.Repeat("0", 64)+
					`":{"urls":["http://169.254.169.254/"]}}}]`)},
			wantError: "it has layers that are kept elsewhere",
		},
		"config no JSON": {
			entries:   []tar.Header{entry("config", "nothing"), complete[1], complete[2]},
			wantError: "image file",
		},
		"no tag": {entries: complete, target: host + "/deps", wantError: "has no tag"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			target := host + "/deps:1"
			if tc.target != "" {
				target = tc.target
			}
			_, err := r.PushTarball(t.Context(), PushRequest{Path: packImageFile(t, tc.entries), Target: target})
			if err == nil || IsUnavailable(err) || !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("got error %v, want %s", err, tc.wantError)
			}
			if _, _, manifests, blobBytes := counter.take(); manifests != 0 || blobBytes != 0 {
				t.Errorf("%d manifests and %d bytes were sent", manifests, blobBytes)
			}
		})
	}
	if _, err := r.PushTarball(t.Context(), PushRequest{Path: "/nowhere/image.tar", Target: host + "/deps:1"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got error %v", err)
	}
}

func packImageFile(t *testing.T, entries []tar.Header) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(file)
	for _, header := range entries {
		content := header.Linkname
		if header.Typeflag == tar.TypeReg {
			header.Linkname = ""
		} else {
			content = ""
		}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}
