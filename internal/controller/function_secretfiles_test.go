// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/runtimes"
)

func TestLeaveSecretFilesOut(t *testing.T) {
	t.Parallel()
	rt := runtimes.Runtime{Dependencies: runtimes.Dependencies{Secret: []string{".npmrc", "other"}}}
	code := map[string]string{"handler.js": "1", "lib/.npmrc": "stays"}
	tests := map[string]struct {
		files map[string]string
		want  map[string]string
	}{
		"none":         {files: code, want: code},
		"one":          {files: with(code, ".npmrc", "_authToken=s3cret"), want: code},
		"of two kinds": {files: with(with(code, ".npmrc", "x"), "other", "y"), want: code},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := storedArchive(t, tc.files)
			digest := stored.digest
			if err := leaveSecretFilesOut(t.Context(), stored, rt); err != nil {
				t.Fatal(err)
			}
			want := storedArchive(t, tc.want).layer
			got := stored.layer
			if got.Digest != want.Digest || got.DiffID != want.DiffID || got.Size != want.Size {
				t.Errorf("layer %v, want %v", got, want)
			}
			if stored.digest != digest {
				t.Errorf("the digest of what is stored became %s", stored.digest)
			}
			if diff := cmp.Diff(contentOf(t, want), contentOf(t, got)); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLeaveSecretFilesOutPassesErrorsOn(t *testing.T) {
	t.Parallel()
	rt := runtimes.Runtime{Dependencies: runtimes.Dependencies{Secret: []string{".npmrc"}}}
	stored := storedArchive(t, map[string]string{"handler.js": "1", ".npmrc": "x"})
	open := stored.open
	gone := errors.New("the store is gone")
	stored.open = func(context.Context) (io.ReadCloser, error) { return nil, gone }
	if err := leaveSecretFilesOut(t.Context(), stored, rt); !errors.Is(err, gone) {
		t.Errorf("error %v, want %v", err, gone)
	}
	stored.open = open
	if err := leaveSecretFilesOut(t.Context(), stored, rt); err != nil {
		t.Fatal(err)
	}
	stored.open = func(context.Context) (io.ReadCloser, error) { return nil, gone }
	content, err := stored.layer.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	if _, err := io.ReadAll(content); !errors.Is(err, gone) {
		t.Errorf("reading gives %v, want %v", err, gone)
	}
}

func with(files map[string]string, name, content string) map[string]string {
	more := map[string]string{name: content}
	maps.Copy(more, files)
	return more
}

func storedArchive(t *testing.T, files map[string]string) *codeArchive {
	t.Helper()
	packed, err := archive.FromFiles(files, archive.Options{Prefix: archive.CodePrefix})
	if err != nil {
		t.Fatal(err)
	}
	open := func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Data)), nil }
	return &codeArchive{
		digest: packed.Digest, open: open,
		layer: image.LayerSource{Digest: packed.Digest, DiffID: packed.DiffID, Size: int64(len(packed.Data)), Open: open},
		file:  func(name string) (string, bool) { text, ok := files[name]; return text, ok },
	}
}

func contentOf(t *testing.T, layer image.LayerSource) []byte {
	t.Helper()
	content, err := layer.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	data, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
