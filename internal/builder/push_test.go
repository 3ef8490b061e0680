// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/naeel/sless/internal/image"
)

func writeImage(t *testing.T) (path, digest string) {
	t.Helper()
	img, err := random.Image(10_000, 2)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("example.com/built:1")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(path, tag, img); err != nil {
		t.Fatal(err)
	}
	hash, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return path, hash.String()
}

func TestPush(t *testing.T) {
	t.Parallel()
	front, host := startRegistry(t)
	path, want := writeImage(t)
	args := []string{
		"push", "--tar", path, "--target", host + "/deps:1", "--insecure-registry", host, "--base", host + "/none:1",
	}

	front.shut(http.StatusServiceUnavailable, 2)
	if got := run(t, nil, args...); got.code != 0 || got.termination != want {
		t.Fatalf("got %+v, want digest %s", got, want)
	}
	registry, err := image.New(image.Config{Insecure: []string{host}})
	if err != nil {
		t.Fatal(err)
	}
	if digest, ok, err := registry.Exists(t.Context(), host+"/deps:1"); !ok || digest != want || err != nil {
		t.Errorf("got %s, %t, %v", digest, ok, err)
	}
}

func TestPushSetsLabels(t *testing.T) {
	t.Parallel()
	_, host := startRegistry(t)
	path, plain := writeImage(t)
	args := []string{"push", "--tar", path, "--target", host + "/code:1", "--insecure-registry", host}
	got := run(t, nil, append(args, "--label", "sless.io/namespace=shop", "--label", "note=a=b")...)
	if got.code != 0 || got.termination == plain {
		t.Fatalf("got %+v, want another digest than %s", got, plain)
	}
	registry, err := image.New(image.Config{Insecure: []string{host}})
	if err != nil {
		t.Fatal(err)
	}
	labels, err := registry.Labels(t.Context(), host+"/code@"+got.termination)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"sless.io/namespace": "shop", "note": "a=b"}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	run(t, nil, append(args, "--label", "nothing")...).wantFailure(t, ReasonPushFailed, `--label is "nothing"`)
}

func TestPushFails(t *testing.T) {
	t.Parallel()
	path, _ := writeImage(t)
	noImage := filepath.Join(t.TempDir(), "none.tar")
	if err := os.WriteFile(noImage, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	credentials := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(credentials, []byte(secretKey), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		status     int
		tar        string
		tag        string
		more       []string
		wantReason string
		wantWords  []string
	}{
		"denied": {
			status: http.StatusForbidden, wantReason: ReasonPushFailed, wantWords: []string{"/deps:1", "403"},
		},
		"no image": {tar: noImage, wantReason: ReasonPushFailed, wantWords: []string{"none.tar"}},
		"no file":  {tar: "/nowhere/image.tar", wantReason: ReasonPushFailed, wantWords: []string{"no such file"}},
		"no tag":   {tag: "/deps", wantReason: ReasonPushFailed, wantWords: []string{"has no tag"}},
		"no CA file": {
			more: []string{"--registry-ca-file", "/nowhere"}, wantReason: ReasonPushFailed, wantWords: []string{"CA file"},
		},
		"bad credentials": {
			more: []string{"--registry-config", credentials}, wantReason: ReasonPushFailed,
			wantWords: []string{"docker config.json"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			front, host := startRegistry(t)
			if tc.status != 0 {
				front.shut(tc.status, -1)
			}
			file, tag := path, "/deps:1"
			if tc.tar != "" {
				file = tc.tar
			}
			if tc.tag != "" {
				tag = tc.tag
			}
			args := append([]string{"push", "--tar", file, "--target", host + tag, "--insecure-registry", host}, tc.more...)
			run(t, nil, args...).wantFailure(t, tc.wantReason, tc.wantWords...)
		})
	}
}

func TestPushToNobody(t *testing.T) {
	t.Parallel()
	path, _ := writeImage(t)
	const host = "127.0.0.1:1"
	run(t, nil, "push", "--tar", path, "--target", host+"/deps:1", "--insecure-registry", host).
		wantFailure(t, ReasonRegistryUnavailable, host+"/deps:1")
}
