// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func build(t *testing.T, spec Spec) v1.Image {
	t.Helper()
	img, err := Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		if err := validate.Layer(l); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

func digest(t *testing.T, img v1.Image) string {
	t.Helper()
	h, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// entries lists one layer as "name mode uid:gid content-or-target".
func entries(t *testing.T, img v1.Image, layer int) []string {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[layer].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var list []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(epoch()) || h.Uname != "" {
			t.Errorf("%s has time %s and owner name %q", h.Name, h.ModTime, h.Uname)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		line := h.Name + " " + fs.FileMode(h.Mode).String() + " " + h.Linkname + string(data)
		list = append(list, strings.TrimSpace(line))
	}
}

func TestBuildFromFiles(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(source, []byte("binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []File{
		{Path: "/usr/bin/prog", Source: source, Mode: 0o755},
		{Path: "etc/motd", Data: []byte("hi"), Mode: 0o644},
		{Path: "bin", Target: "usr/bin", Mode: fs.ModeSymlink},
		{Path: "kaniko", Mode: fs.ModeDir | 0o777},
	}
	img := build(t, Spec{Layers: []Layer{{Files: files}}})
	want := []string{
		"bin -rwxrwxrwx usr/bin", "etc/ -rwxr-xr-x", "etc/motd -rw-r--r-- hi", "kaniko/ -rwxrwxrwx",
		"usr/ -rwxr-xr-x", "usr/bin/ -rwxr-xr-x", "usr/bin/prog -rwxr-xr-x binary",
	}
	if diff := cmp.Diff(want, entries(t, img, 0)); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}

	// Another order and other times on disk give the same image.
	if err := os.Chtimes(source, time.Unix(5, 0), time.Unix(6, 0)); err != nil {
		t.Fatal(err)
	}
	files[0], files[3] = files[3], files[0]
	if again := build(t, Spec{Layers: []Layer{{Files: files}}}); digest(t, again) != digest(t, img) {
		t.Error("the same files in another order give another digest")
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		layer Layer
		want  string
	}{
		"a missing file":       {Layer{Files: []File{{Path: "a", Source: "/does/not/exist"}}}, "/does/not/exist"},
		"a path twice":         {Layer{Files: []File{{Path: "a"}, {Path: "/a"}}}, "a is in the layer twice"},
		"no path":              {Layer{Files: []File{{Path: "/"}}}, "no path"},
		"a file as folder":     {Layer{Files: []File{{Path: "a"}, {Path: "a/b"}}}, "a is a file and a folder"},
		"a device":             {Layer{Files: []File{{Path: "a", Mode: fs.ModeDevice}}}, "cannot put"},
		"files and a stream":   {Layer{Files: []File{}, Tar: tarOpener(nil)}, "not from both"},
		"a stream that breaks": {Layer{Tar: tarOpener([]byte("not a tar stream, but long enough to be read as one"))}, "tar"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Build(Spec{Layers: []Layer{tc.layer}}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not hold %q", err, tc.want)
			}
		})
	}
}

func tarOpener(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

func rawTar(t *testing.T, stamp time.Time) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "./bin/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "./bin/sh", Mode: 0o4755, Size: 2, PAXRecords: map[string]string{
			"SCHILY.xattr.security.capability": "x", "VENDOR.run": stamp.String(),
		}},
		{Typeflag: tar.TypeLink, Name: "./bin/dash", Linkname: "./bin/sh", Mode: 0o755},
		{Typeflag: tar.TypeChar, Name: "./dev/null", Mode: 0o666},
	} {
		h.ModTime, h.AccessTime, h.Uname, h.Format = stamp, stamp, "root", tar.FormatPAX
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(bytes.Repeat([]byte("x"), int(h.Size))); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestBuildFromTar(t *testing.T) {
	t.Parallel()
	spec := func(stamp time.Time) Spec {
		return Spec{Layers: []Layer{{
			Tar:  tarOpener(rawTar(t, stamp)),
			Keep: func(name string, _ *tar.Header) bool { return !strings.HasPrefix(name, "dev") },
		}}}
	}
	img := build(t, spec(time.Unix(1000, 0)))
	want := []string{"bin/ -rwxr-xr-x", "bin/sh " + fs.FileMode(0o4755).String() + " xx", "bin/dash -rwxr-xr-x bin/sh"}
	if diff := cmp.Diff(want, entries(t, img, 0)); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
	if again := build(t, spec(time.Unix(2000, 0))); digest(t, again) != digest(t, img) {
		t.Error("the same tree with other times gives another digest")
	}
}

func TestBuildOnBase(t *testing.T) {
	t.Parallel()
	base := build(t, Spec{
		Layers:     []Layer{{Files: []File{{Path: "base", Mode: 0o644}}}},
		Entrypoint: []string{"/base"}, Cmd: []string{"arg"}, User: "1:1", WorkingDir: "/base",
		Env: map[string]string{"A": "1", "B": "2"}, Labels: map[string]string{"a": "1"}, Architecture: "arm64",
	})
	img := build(t, Spec{
		Base: base, Layers: []Layer{{Files: []File{{Path: "top", Mode: 0o644}}}},
		Entrypoint: []string{"/top"}, Env: map[string]string{"B": "3", "D": "5", "C": "4"},
		Labels: map[string]string{"b": "2"},
	})
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		Entrypoint: []string{"/top"}, User: "1:1", WorkingDir: "/base",
		Env: []string{"A=1", "B=3", "C=4", "D=5"}, Labels: map[string]string{"a": "1", "b": "2"},
	}
	if diff := cmp.Diff(want, cfg.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if cfg.Architecture != "arm64" || cfg.OS != "linux" || len(cfg.RootFS.DiffIDs) != 2 || len(cfg.History) != 2 {
		t.Errorf("image is %s/%s with %d layers", cfg.OS, cfg.Architecture, len(cfg.RootFS.DiffIDs))
	}
	baseLabels, err := base.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if len(baseLabels.Config.Labels) != 1 {
		t.Error("building on a base changed the base")
	}
}

func TestSaveTar(t *testing.T) {
	t.Parallel()
	img := build(t, Spec{Layers: []Layer{{Files: []File{{Path: "a", Mode: 0o644}}}}})
	path := filepath.Join(t.TempDir(), "images", "a.tar")
	const ref = "sless.local/pause:3.10"
	if err := SaveTar(path, ref, img); err != nil {
		t.Fatal(err)
	}
	want, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	gotRef, got, err := TarContent(path)
	if err != nil || gotRef != ref || got != want {
		t.Errorf("file holds %s as %s, %v; want %s as %s", got, gotRef, err, want, ref)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("folder holds %d files, %v", len(left), err)
	}
	if err := SaveTar(path, "no tag", img); err == nil {
		t.Error("a bad name is accepted")
	}
	if _, _, err := TarContent("/does/not/exist"); err == nil {
		t.Error("a missing file is accepted")
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New())
	defer server.Close()
	img := build(t, Spec{Layers: []Layer{{Files: []File{{Path: "a", Mode: 0o644}}}}})
	ref := strings.TrimPrefix(server.URL, "http://") + "/repo:v1"
	got, err := Push(t.Context(), ref, img, true, authn.DefaultKeychain)
	if err != nil || got != digest(t, img) {
		t.Fatalf("pushed %s, %v; want %s", got, err, digest(t, img))
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	desc, err := remote.Head(tag)
	if err != nil || desc.Digest.String() != got {
		t.Errorf("the registry has %v, %v", desc, err)
	}
}
