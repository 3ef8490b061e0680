// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/naeel/sless/internal/archive"
)

// goldenImage is the digest of the sample archive on the sample base. A change means that every function gets a new
// image at the next reconciliation.
const goldenImage = "sha256:9d8ae7279628db6ec05cc12cefd947e6edcf46396b1351cea1868c78494750de"

var baseConfig = v1.Config{
	Entrypoint: []string{"/sless/watchdog"},
	Env:        []string{"PATH=/usr/bin", "SLESS_WORKER=python3 -u /sless/worker.py"},
	User:       "65532:65532",
	WorkingDir: "/app",
	Labels:     map[string]string{"sless.io/runtime": "python3.11", "kept": "yes"},
}

// makeBase gives an image with two layers, the same each time.
func makeBase(t *testing.T, mediaType types.MediaType) v1.Image {
	t.Helper()
	img := mutate.MediaType(empty.Image, mediaType)
	if mediaType == types.OCIManifestSchema1 {
		img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	}
	for i := range 2 {
		packed, err := archive.FromFiles(map[string]string{
			fmt.Sprintf("usr/lib/%d.txt", i): strings.Repeat(fmt.Sprintf("layer %d\n", i), 100_000),
		}, archive.Options{})
		if err != nil {
			t.Fatal(err)
		}
		layer, err := newLayer(t.Context(), layerOf(packed), layerType(mediaType))
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			t.Fatal(err)
		}
	}
	img, err := mutate.Config(img, baseConfig)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func layerOf(packed *archive.Archive) LayerSource {
	return LayerSource{
		Digest: packed.Digest,
		DiffID: packed.DiffID,
		Size:   int64(len(packed.Data)),
		Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(packed.Data)), nil
		},
	}
}

func sampleLayer(t *testing.T) LayerSource {
	t.Helper()
	packed, err := archive.FromFiles(map[string]string{"handler.py": "def handle(event):\n    return 1\n"},
		archive.Options{Prefix: "app/"})
	if err != nil {
		t.Fatal(err)
	}
	return layerOf(packed)
}

// pushImage pushes img as a user of the registry would and gives its reference by digest.
func pushImage(t *testing.T, r *Registry, target string, img remote.Taggable) string {
	t.Helper()
	tag, err := r.parseTag(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Push(tag, img, r.options(t.Context())...); err != nil {
		t.Fatal(err)
	}
	descriptor, err := remote.Head(tag, r.options(t.Context())...)
	if err != nil {
		t.Fatal(err)
	}
	return tag.Context().Digest(descriptor.Digest.String()).Name()
}

func pullImage(t *testing.T, r *Registry, ref string) v1.Image {
	t.Helper()
	parsed, err := r.parse(ref)
	if err != nil {
		t.Fatal(err)
	}
	img, err := r.image(t.Context(), parsed)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

var registries = map[string]func(*testing.T) (string, *traffic){
	"in process":   startRegistry,
	"distribution": startDistribution,
}

func TestAppend(t *testing.T) {
	t.Parallel()
	for server, start := range registries {
		for _, mediaType := range []types.MediaType{types.DockerManifestSchema2, types.OCIManifestSchema1} {
			t.Run(server+"/"+string(mediaType), func(t *testing.T) {
				t.Parallel()
				host, counter := start(t)
				r := newTestRegistry(t, host)
				base := makeBase(t, mediaType)
				req := AppendRequest{
					Base:   pushImage(t, r, host+"/sless-runtime-python3.11:v0.1.0", base),
					Target: host + "/sless-ns-hello:0123abcd",
					Layer:  sampleLayer(t),
					Labels: map[string]string{"sless.io/source-digest": "abc", "sless.io/runtime": "other"},
				}
				counter.take()
				digest, err := r.Append(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				checkAppended(t, pullImage(t, r, host+"/sless-ns-hello@"+digest), base, req)
				checkTraffic(t, r, counter, req, digest)
			})
		}
	}
}

func checkAppended(t *testing.T, img, base v1.Image, req AppendRequest) {
	t.Helper()
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	baseManifest, err := base.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.MediaType != baseManifest.MediaType || manifest.Config.MediaType != baseManifest.Config.MediaType {
		t.Errorf("types are %s and %s", manifest.MediaType, manifest.Config.MediaType)
	}
	last := len(manifest.Layers) - 1
	if diff := cmp.Diff(baseManifest.Layers, manifest.Layers[:last]); diff != "" {
		t.Error("layers of the base", diff)
	}
	if got := manifest.Layers[last]; got.Digest.String() != req.Layer.Digest || got.Size != req.Layer.Size ||
		got.MediaType != layerType(manifest.MediaType) {
		t.Errorf("last layer is %+v", got)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := *baseConfig.DeepCopy()
	want.Labels = map[string]string{"sless.io/runtime": "other", "kept": "yes", "sless.io/source-digest": "abc"}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Error("configuration", diff)
	}
	history := config.History[len(config.History)-1]
	if history.CreatedBy != createdBy || !history.Created.Equal(created.Time) || !config.Created.Equal(created.Time) {
		t.Errorf("created %s, history %+v", config.Created, history)
	}
	if got := config.RootFS.DiffIDs[len(config.RootFS.DiffIDs)-1].String(); got != req.Layer.DiffID {
		t.Errorf("last diff ID is %s, want %s", got, req.Layer.DiffID)
	}
}

// checkTraffic shows that no layer of the base was sent, and that the same request again sends nothing.
func checkTraffic(t *testing.T, r *Registry, counter *traffic, req AppendRequest, digest string) {
	t.Helper()
	manifest, err := pullImage(t, r, req.Target).Manifest()
	if err != nil {
		t.Fatal(err)
	}
	_, mounts, manifests, blobBytes := counter.take()
	if want := req.Layer.Size + manifest.Config.Size; blobBytes != want {
		t.Errorf("%d bytes were sent, want %d: layer and configuration", blobBytes, want)
	}
	// The new layer and the configuration are offered for mounting too, for what it is worth.
	if mounts < len(manifest.Layers)-1 || manifests != 1 {
		t.Errorf("%d mounts and %d manifests were sent", mounts, manifests)
	}
	req.Layer.Open = func(context.Context) (io.ReadCloser, error) {
		t.Error("the layer was opened again")
		return nil, errors.New("not now")
	}
	again, err := r.Append(t.Context(), req)
	if err != nil || again != digest {
		t.Errorf("again: digest %s, error %v, want %s", again, err, digest)
	}
	requests, mounts, manifests, blobBytes := counter.take()
	if mounts != 0 || manifests != 0 || blobBytes != 0 {
		t.Errorf("again: %d mounts, %d manifests and %d bytes were sent", mounts, manifests, blobBytes)
	}
	t.Logf("an image that exists takes %d requests", requests)
}

func TestAppendGolden(t *testing.T) {
	t.Parallel()
	host, _ := startRegistry(t)
	r := newTestRegistry(t, host)
	base := pushImage(t, r, host+"/base:v1", makeBase(t, types.DockerManifestSchema2))
	for _, target := range []string{"a:1", "a:2", "b:1"} {
		got, err := r.Append(t.Context(), AppendRequest{
			Base: base, Target: host + "/" + target, Layer: sampleLayer(t), Labels: map[string]string{"b": "1", "a": "2"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got != goldenImage {
			t.Errorf("%s: digest is %s, want %s", target, got, goldenImage)
		}
	}
}

func TestAppendAcrossRegistries(t *testing.T) {
	t.Parallel()
	from, _ := startRegistry(t)
	to, counter := startRegistry(t)
	r := newRegistry(t, Config{Insecure: []string{from, to}, Backoff: quick})
	base := makeBase(t, types.DockerManifestSchema2)
	req := AppendRequest{Base: pushImage(t, r, from+"/base:v1", base), Target: to + "/fn:1", Layer: sampleLayer(t)}
	digest, err := r.Append(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, blobBytes := counter.take(); blobBytes <= req.Layer.Size {
		t.Errorf("only %d bytes were sent", blobBytes)
	}
	if err := validate.Image(pullImage(t, r, to+"/fn@"+digest)); err != nil {
		t.Error(err)
	}
}

func TestAppendWithBadLayer(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	good := sampleLayer(t)
	content, err := good.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(data)
	flipped[len(flipped)/2] ^= 1
	reader := func(r io.Reader) func(context.Context) (io.ReadCloser, error) {
		return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(r), nil }
	}
	tests := map[string]struct {
		open       func(context.Context) (io.ReadCloser, error)
		wantErr    error
		wantDigest bool
	}{
		"open fails":    {open: func(context.Context) (io.ReadCloser, error) { return nil, gone }, wantErr: gone},
		"read fails":    {open: reader(io.MultiReader(bytes.NewReader(data[:50]), iotest.ErrReader(gone))), wantErr: gone},
		"other content": {open: reader(bytes.NewReader(flipped)), wantDigest: true},
		"too short":     {open: reader(bytes.NewReader(data[:len(data)-1])), wantDigest: true},
		"too long":      {open: reader(bytes.NewReader(append(bytes.Clone(data), 0))), wantDigest: true},
	}
	for server, start := range registries {
		for name, tc := range tests {
			t.Run(server+"/"+name, func(t *testing.T) {
				t.Parallel()
				host, _ := start(t)
				r := newTestRegistry(t, host)
				req := AppendRequest{
					Base:   pushImage(t, r, host+"/base:v1", makeBase(t, types.DockerManifestSchema2)),
					Target: host + "/fn:1",
					Layer:  good,
				}
				req.Layer.Open = tc.open
				_, err := r.Append(t.Context(), req)
				var layerErr *LayerError
				var digestErr *archive.DigestError
				if !errors.As(err, &layerErr) || IsUnavailable(err) || errors.As(err, &digestErr) != tc.wantDigest {
					t.Errorf("got error %v", err)
				}
				if tc.wantErr != nil && !errors.Is(err, tc.wantErr) {
					t.Errorf("got error %v, want %v", err, tc.wantErr)
				}
				if _, ok, err := r.Exists(t.Context(), req.Target); ok || err != nil {
					t.Errorf("the image exists: %t, %v", ok, err)
				}
			})
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	t.Parallel()
	host, counter := startRegistry(t)
	r := newTestRegistry(t, host)
	base := pushImage(t, r, host+"/base:v1", makeBase(t, types.DockerManifestSchema2))
	artifact := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	artifact = mutate.ConfigMediaType(artifact, "application/vnd.test+json")
	noImage := pushImage(t, r, host+"/artifact:v1", artifact)
	large, err := mutate.Config(empty.Image, v1.Config{Env: []string{"A=" + strings.Repeat("x", maxDocument)}})
	if err != nil {
		t.Fatal(err)
	}
	largeConfig := pushImage(t, r, host+"/large:v1", large)
	counter.take()

	tests := map[string]struct {
		change    func(*AppendRequest)
		wantError string
	}{
		"base by tag":      {change: func(q *AppendRequest) { q.Base = host + "/base:v1" }, wantError: "has no digest"},
		"target no tag":    {change: func(q *AppendRequest) { q.Target = host + "/fn" }, wantError: "has no tag"},
		"target by digest": {change: func(q *AppendRequest) { q.Target = base }, wantError: "has no tag"},
		"target invalid":   {change: func(q *AppendRequest) { q.Target = host + "/FN:1" }, wantError: "image reference"},
		"layer digest": {
			change: func(q *AppendRequest) { q.Layer.Digest = "sha256:1" }, wantError: "is not a sha256 digest",
		},
		"layer diff ID": {change: func(q *AppendRequest) { q.Layer.DiffID = "" }, wantError: "is not a sha256 digest"},
		"base missing": {
			change: func(q *AppendRequest) { q.Base = host + "/base@" + q.Layer.Digest }, wantError: "reading base image",
		},
		"base no image": {change: func(q *AppendRequest) { q.Base = noImage }, wantError: "it is no container image"},
		"base large":    {change: func(q *AppendRequest) { q.Base = largeConfig }, wantError: "its configuration has 4"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			req := AppendRequest{Base: base, Target: host + "/fn:1", Layer: sampleLayer(t)}
			tc.change(&req)
			_, err := r.Append(t.Context(), req)
			if err == nil || IsUnavailable(err) || !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("got error %v, want %s", err, tc.wantError)
			}
			if _, _, manifests, blobBytes := counter.take(); manifests != 0 || blobBytes != 0 {
				t.Errorf("%d manifests and %d bytes were sent", manifests, blobBytes)
			}
		})
	}
}

// A registry that fails now and then is asked again, and the layer is opened again for it.
func TestAppendTriesAgain(t *testing.T) {
	t.Parallel()
	inner, _ := startRegistry(t)
	failing := map[string]int{http.MethodPatch: 2, http.MethodGet: 1, http.MethodHead: 2}
	var seen []string
	host, _ := serve(t, failFirst(t, inner, failing, &seen))
	r := newRegistry(t, Config{Insecure: []string{host, inner}, Backoff: quick})
	base := pushImage(t, r, inner+"/base:v1", makeBase(t, types.DockerManifestSchema2))
	opened := 0
	layer := sampleLayer(t)
	open := layer.Open
	layer.Open = func(ctx context.Context) (io.ReadCloser, error) {
		opened++
		return open(ctx)
	}
	base = strings.Replace(base, inner, host, 1)
	if _, err := r.Append(t.Context(), AppendRequest{Base: base, Target: host + "/fn:1", Layer: layer}); err != nil {
		t.Fatal(err)
	}
	for method := range failing {
		if !slices.Contains(seen, method) {
			t.Errorf("no %s request failed", method)
		}
	}
	if opened == 0 {
		t.Error("the layer was not opened")
	}
}
