// SPDX-License-Identifier: Apache-2.0

package toolcache

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

func hello(t *testing.T, source string) Group {
	t.Helper()
	return Group{
		Name: "hello", Programs: []Program{{Name: "renamed", Package: "."}},
		Dir: writeModule(t, map[string]string{
			"go.mod":  "module example.com/hello\n\ngo 1.26\n",
			"main.go": source,
		}),
	}
}

const helloSource = "package main\n\nimport \"os\"\n\nfunc main() { _, _ = os.Stdout.WriteString(\"hello\") }\n"

func TestBuildOnce(t *testing.T) {
	t.Parallel()
	g := hello(t, helloSource)
	c := Cache{Dir: t.TempDir(), Poll: time.Millisecond}

	// What a killed build leaves behind must not stay.
	dir, built, err := c.Folder(t.Context(), g)
	if err != nil || built {
		t.Fatalf("folder before the build: built %v, %v", built, err)
	}
	stale := dir + ".tmp-123"
	if err := os.MkdirAll(stale, 0o755); err != nil {
		t.Fatal(err)
	}

	eg, ctx := errgroup.WithContext(t.Context())
	for range 4 {
		eg.Go(func() error {
			_, err := c.Build(ctx, g, nil)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(dir, "renamed")).Output()
	if err != nil || string(out) != "hello" {
		t.Errorf("running the program: %q, %v", out, err)
	}
	entries, err := filepath.Glob(filepath.Join(c.Dir, "tools", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{dir, dir + ".lock"}, entries); diff != "" {
		t.Errorf("cache (-want +got):\n%s", diff)
	}
}

func TestBuildFailureShowsTheCompiler(t *testing.T) {
	t.Parallel()
	c := Cache{Dir: t.TempDir()}
	g := hello(t, "package main\n\nfunc main() { nonsense() }\n")
	_, err := c.Build(t.Context(), g, nil)
	if err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("error %v does not show the compiler's message", err)
	}
	if _, built, _ := c.Folder(t.Context(), g); built {
		t.Error("a failed build looks complete")
	}
}

func TestBuildStopsWhileWaiting(t *testing.T) {
	t.Parallel()
	c := Cache{Dir: t.TempDir(), Poll: time.Millisecond}
	g := hello(t, helloSource)
	dir, _, err := c.Folder(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := c.lock(t.Context(), dir+".lock", func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	_, err = c.Build(ctx, g, func(string) { cancel() })
	if err == nil || ctx.Err() == nil {
		t.Errorf("build under a held lock ended with %v", err)
	}
}

func TestWatcher(t *testing.T) {
	t.Parallel()
	var lines []string
	w := newWatcher(func(line string) { lines = append(lines, line) })
	for _, piece := range []string{
		"go: downloading example.com/x v1.0.0\nk8s.io/a", "pi\nk8s.io/client-go\n# k8s.io/bad\n", "bad.go:1:2: undefined: x",
	} {
		if _, err := w.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"downloading example.com/x v1.0.0",
		"1 packages compiled, now k8s.io/api",
		"2 packages compiled, now k8s.io/client-go",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(w.tail(), "# k8s.io/bad\nbad.go:1:2: undefined: x") {
		t.Errorf("tail is %q", w.tail())
	}
}

func TestWatcherBoundsALine(t *testing.T) {
	t.Parallel()
	w := newWatcher(func(string) {})
	for range 100 {
		if _, err := w.Write([]byte(strings.Repeat("x", maxLine))); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.tail()) != maxLine {
		t.Errorf("kept %d bytes of one line, want %d", len(w.tail()), maxLine)
	}
}

func TestRoot(t *testing.T) {
	t.Setenv(EnvRoot, "/somewhere/else")
	if got, err := Root(); err != nil || got != "/somewhere/else" {
		t.Errorf("root %q, %v", got, err)
	}
}
