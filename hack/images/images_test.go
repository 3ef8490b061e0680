// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
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
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/naeel/sless/hack/images/internal/layer"
	"github.com/naeel/sless/hack/internal/oci"
	"github.com/naeel/sless/hack/internal/progress"
)

// testWorkshop works in folders of its own; its checkout holds one runtime on the base image.
func testWorkshop(t *testing.T, base string) *workshop {
	t.Helper()
	w := &workshop{checkout: t.TempDir(), dir: t.TempDir(), progress: progress.New(io.Discard, time.Now)}
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(w.checkout, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("watchdog.bin", "program")
	write("runtimes/lang1/runtime.yaml", "image: sless-runtime-lang1\nversion: v0.1.0\n")
	write("runtimes/lang1/worker.x", "worker")
	write("runtimes/lang1/Dockerfile", "FROM golang AS build\nFROM "+base+"\n"+
		"RUN mkdir -p /app /opt/deps\n"+
		"COPY --from=build /out/watchdog /sless/watchdog\nCOPY runtimes/lang1/worker.x /sless/\n"+
		"ENV SLESS_WORKER=\"lang /sless/worker.x\"\nWORKDIR /app\nUSER 65532:65532\nENTRYPOINT [\"/sless/watchdog\"]\n")
	write("runtimes/watchdog/main.go", "package main\n")
	return w
}

// testRegistry starts a registry and returns its host.
func testRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func pushRandom(t *testing.T, ref string) {
	t.Helper()
	img, err := random.Image(100, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := oci.Push(t.Context(), ref, img, true, authn.DefaultKeychain); err != nil {
		t.Fatal(err)
	}
}

// makeAndPush runs the command's steps on a checkout, apart from the build of the watchdog.
func makeAndPush(t *testing.T, w *workshop, host string) result {
	t.Helper()
	sources, err := runtimeSources(filepath.Join(w.checkout, "runtimes"), nil)
	if err != nil || len(sources) != 1 {
		t.Fatalf("found %d runtimes, error %v", len(sources), err)
	}
	path := filepath.Join(w.checkout, "watchdog.bin")
	sum, err := fileSHA256(path)
	if err != nil {
		t.Fatal(err)
	}
	maker := runtimeMaker{workshop: w, watchdog: program{path: path, sha256: sum}, from: basePull}
	img, err := maker.image(t.Context(), sources[0])
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPusher(t.Context(), w.progress, runtimeOptions{registry: host, plainHTTP: true, wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.push(t.Context(), sources[0], img)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRuntimeImage(t *testing.T) {
	t.Parallel()
	host := testRegistry(t)
	pushRandom(t, host+"/base:1")
	w := testWorkshop(t, host+"/base:1")
	first := makeAndPush(t, w, host)
	if want := host + "/sless-runtime-lang1:v0.1.0"; first.Ref != want || !first.Pushed {
		t.Errorf("ref %s pushed %v, want %s pushed", first.Ref, first.Pushed, want)
	}
	if again := makeAndPush(t, w, host); again.Pushed || again.Digest != first.Digest {
		t.Errorf("second run: pushed %v, digest %s, want not pushed and %s", again.Pushed, again.Digest, first.Digest)
	}
	// Another machine with an empty cache makes the same image.
	if other := makeAndPush(t, testWorkshop(t, host+"/base:1"), host); other.Digest != first.Digest {
		t.Errorf("with an empty cache the digest is %s, want %s", other.Digest, first.Digest)
	}
	if err := os.WriteFile(filepath.Join(w.checkout, "runtimes/lang1/worker.x"), []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if changed := makeAndPush(t, w, host); !changed.Pushed || changed.Digest == first.Digest {
		t.Errorf("after a change of the worker: pushed %v, digest %s", changed.Pushed, changed.Digest)
	}
	checkRuntimeImage(t, host)
}

func checkRuntimeImage(t *testing.T, host string) {
	t.Helper()
	ref, err := name.ParseReference(host + "/sless-runtime-lang1:v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{
		"env": config.Config.Env, "user": config.Config.User, "dir": config.Config.WorkingDir,
		"entrypoint": config.Config.Entrypoint, "layers": len(config.RootFS.DiffIDs),
	}
	want := map[string]any{
		"env": []string{"SLESS_WORKER=lang /sless/worker.x"}, "user": "65532:65532", "dir": "/app",
		"entrypoint": []string{"/sless/watchdog"}, "layers": 5,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("image (-want +got):\n%s", diff)
	}
}

// TestRuntimesOfThisCheckout holds the Dockerfiles to what the controllers rely on.
func TestRuntimesOfThisCheckout(t *testing.T) {
	t.Parallel()
	sources, err := runtimeSources("../../runtimes", nil)
	if err != nil || len(sources) < 2 {
		t.Fatalf("found %d runtimes, error %v", len(sources), err)
	}
	for _, source := range sources {
		t.Run(source.name, func(t *testing.T) {
			t.Parallel()
			got := map[string]any{
				"image": source.image, "user": source.stage.User, "dir": source.stage.WorkDir, "home": source.stage.Env["HOME"],
				"entrypoint": source.stage.Entrypoint, "worker": source.stage.Env["SLESS_WORKER"] != "",
			}
			want := map[string]any{
				"image": "sless-runtime-" + source.name, "user": nonRoot, "dir": "/app", "home": "/tmp",
				"entrypoint": []string{"/sless/watchdog"}, "worker": true,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Dockerfile (-want +got):\n%s", diff)
			}
			for _, c := range source.stage.Copies {
				if _, err := os.Stat(filepath.Join("../..", c.Source)); c.Stage == "" && err != nil {
					t.Errorf("COPY of something that is not there: %v", err)
				}
			}
		})
	}
}

func TestRuntimeSourcesRefusesUnknownName(t *testing.T) {
	t.Parallel()
	w := testWorkshop(t, "x")
	_, err := runtimeSources(filepath.Join(w.checkout, "runtimes"), []string{"lang2"})
	if err == nil || !strings.Contains(err.Error(), "lang1") {
		t.Errorf("error %v, want one that names what there is", err)
	}
}

func TestNewPusherGivesUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	opt := runtimeOptions{registry: "127.0.0.1:1", plainHTTP: true, wait: time.Minute}
	if _, err := newPusher(ctx, progress.New(io.Discard, time.Now), opt); err == nil {
		t.Error("no error from a registry that is not there")
	}
}

func TestArchiveIsMadeOnceAndOldOnesGo(t *testing.T) {
	t.Parallel()
	w := testWorkshop(t, "x")
	var archives []string
	for i := range keepArchives + 2 {
		l, err := w.filesLayer(layer.Tree{"f": layer.File(0o644, fmt.Append(nil, i))})
		if err != nil {
			t.Fatal(err)
		}
		img := &nodeImage{name: "x", ref: localHost + "/x:1", layers: layers(l)}
		r, err := w.archive(img)
		if err != nil {
			t.Fatal(err)
		}
		before := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(r.Archive, before, before); err != nil {
			t.Fatal(err)
		}
		again, err := w.archive(img)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Errorf("second archive (-first +second):\n%s", diff)
		}
		if info, err := os.Stat(r.Archive); err != nil || !info.ModTime().Equal(before) {
			t.Errorf("the archive was written again (error %v)", err)
		}
		ref, _, err := oci.TarContent(r.Archive)
		if err != nil || ref != img.ref {
			t.Errorf("the archive holds %s, error %v, want %s", ref, err, img.ref)
		}
		archives = append(archives, r.Archive)
	}
	left, err := filepath.Glob(filepath.Join(w.dir, "node", "*"))
	if err != nil {
		t.Fatal(err)
	}
	sortStrings := cmp.Transformer("set", func(list []string) map[string]bool {
		set := map[string]bool{}
		for _, s := range list {
			set[s] = true
		}
		return set
	})
	if diff := cmp.Diff(archives[len(archives)-keepArchives:], left, sortStrings); diff != "" {
		t.Errorf("archives left (-want +got):\n%s", diff)
	}
}

func TestNodeImagesRefusesUnknownName(t *testing.T) {
	t.Parallel()
	if _, err := testWorkshop(t, "x").nodeImages(t.Context(), []string{"nginx"}); err == nil ||
		!strings.Contains(err.Error(), "kaniko") {
		t.Errorf("error %v, want one that names what there is", err)
	}
}

func TestNodeImagesLeavesOutOptionalOnes(t *testing.T) {
	t.Parallel()
	// This checkout has no programs and no tools modules, so that each image fails, with its name in the error.
	w := testWorkshop(t, "x")
	for _, maker := range kedaImageMakers() {
		if !maker.optional {
			t.Errorf("image %s is made when nobody asks for it", maker.name)
		}
		if _, err := w.nodeImages(t.Context(), []string{maker.name}); err == nil || !strings.Contains(err.Error(), maker.name) {
			t.Errorf("error %v, want one of image %s", err, maker.name)
		}
	}
	if _, err := w.nodeImages(t.Context(), nil); err == nil || strings.Contains(err.Error(), "keda") {
		t.Errorf("error %v, want one of the first usual image", err)
	}
}

func TestPrintResults(t *testing.T) {
	t.Parallel()
	results := []result{{Name: "a", Ref: "h/a:1", Archive: "/a.tar", Bytes: 5}}
	var text, data bytes.Buffer
	if err := printResults(&text, outputText, results); err != nil || text.String() != "a\th/a:1\n" {
		t.Errorf("text %q, error %v", text.String(), err)
	}
	if err := printResults(&data, outputJSON, results); err != nil {
		t.Fatal(err)
	}
	var got struct{ Images []result }
	if err := json.Unmarshal(data.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(results, got.Images); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	if err := printResults(io.Discard, "xml", results); err == nil {
		t.Error("no error for an unknown format")
	}
}

func TestBuildWatcher(t *testing.T) {
	t.Parallel()
	var said []string
	w := &buildWatcher{folder: "cmd/x", say: func(format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
	}}
	for _, piece := range []string{"internal/a\nexample.com/", "b\n# example.com/b\nb.go:1:2: ", "broken\n"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	wantSaid := []string{
		"cmd/x: 1 packages compiled, now internal/a", "cmd/x: 2 packages compiled, now example.com/b",
	}
	if diff := cmp.Diff(wantSaid, said); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	if got, want := w.messages.String(), "# example.com/b\nb.go:1:2: broken\n"; got != want {
		t.Errorf("messages %q, want %q", got, want)
	}
}
