// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/naeel/sless/internal/objectstore"
)

const secretKey = "a-secret-that-nobody-may-see"

// quick tries three times and does not wait.
var quick = wait.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 3}

// result is what a run of the program left behind.
type result struct {
	code        int
	stderr      string
	termination string
}

// run runs the program as a container would.
func run(t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	file := filepath.Join(t.TempDir(), "termination-log")
	var stderr bytes.Buffer
	program := &Program{
		Getenv:  func(name string) string { return env[name] },
		Stderr:  &stderr,
		Backoff: quick,
	}
	code := program.Run(t.Context(), append([]string{"--termination-log=" + file}, args...))
	termination, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	got := result{code: code, stderr: stderr.String(), termination: string(termination)}
	if strings.Contains(got.stderr+got.termination, secretKey) {
		t.Errorf("a secret is shown: %+v", got)
	}
	return got
}

// wantFailure checks that the step failed for the reason, with one line that has all words.
func (r result) wantFailure(t *testing.T, reason string, words ...string) {
	t.Helper()
	if r.code != 1 || !strings.HasPrefix(r.termination, reason+": ") || strings.ContainsAny(r.termination, "\n\r") {
		t.Errorf("got code %d and %q, want reason %s on one line", r.code, r.termination, reason)
	}
	for _, word := range words {
		if !strings.Contains(r.termination, word) {
			t.Errorf("got %q, want %q in it", r.termination, word)
		}
	}
	if !strings.Contains(r.stderr, r.termination) {
		t.Errorf("the log %q lacks the reason", r.stderr)
	}
}

// gate lets requests through, or answers them with a status for a while.
type gate struct {
	next http.Handler

	mu       sync.Mutex
	status   int
	left     int // requests that still get the status; below zero means all
	requests int
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.requests++
	closed := g.left != 0
	if g.left > 0 {
		g.left--
	}
	status := g.status
	g.mu.Unlock()
	if closed {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g *gate) shut(status, requests int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status, g.left, g.requests = status, requests, 0
}

func (g *gate) seen() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests
}

// startStore runs an object store with an empty bucket and gives the environment for it.
func startStore(t *testing.T) (*objectstore.S3, *gate, map[string]string) {
	t.Helper()
	front := &gate{next: gofakes3.New(s3mem.New()).Server()}
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	env := map[string]string{
		"S3_ENDPOINT":           strings.TrimPrefix(server.URL, "http://"),
		"S3_BUCKET":             "sless",
		"S3_PATH_STYLE":         "true",
		"S3_INSECURE":           "true",
		"AWS_ACCESS_KEY_ID":     "key",
		"AWS_SECRET_ACCESS_KEY": secretKey,
	}
	store, err := (&Program{Getenv: func(name string) string { return env[name] }}).newStore()
	if err != nil {
		t.Fatal(err)
	}
	if err := store.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store, front, env
}

func put(t *testing.T, store *objectstore.S3, key string, data []byte) {
	t.Helper()
	if err := store.Put(context.Background(), key, bytes.NewReader(data), int64(len(data)), nil); err != nil {
		t.Fatal(err)
	}
}

// startRegistry runs a registry and gives its host.
func startRegistry(t *testing.T) (*gate, string) {
	t.Helper()
	front := &gate{next: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	return front, strings.TrimPrefix(server.URL, "http://")
}

func TestUsage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args       []string
		wantReason string
		wantWords  []string
	}{
		"fetch without flags": {
			args: []string{"fetch"}, wantReason: ReasonSourceFetchFailed, wantWords: []string{"key", "sha256", "dest"},
		},
		"push without flags": {args: []string{"push"}, wantReason: ReasonPushFailed, wantWords: []string{"tar", "target"}},
		"fetch with more": {
			args: []string{"fetch", "--other"}, wantReason: ReasonSourceFetchFailed, wantWords: []string{"--other"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, nil, tc.args...).wantFailure(t, tc.wantReason, tc.wantWords...)
		})
	}
	if got := run(t, nil, "bake"); got.code != 1 || !strings.Contains(got.stderr, "bake") {
		t.Errorf("unknown step: got %+v", got)
	}
	if got := run(t, nil, "--help"); got.code != 0 || got.termination != "" || !strings.Contains(got.stderr, "fetch") {
		t.Errorf("help: got %+v", got)
	}
}

func TestTerminationLogIsCut(t *testing.T) {
	t.Parallel()
	path := "/nowhere/" + strings.Repeat("\u00e9", maxTerminationLog)
	got := run(t, nil, "push", "--tar", path, "--target", "example.com/a:1")
	if len(got.termination) > maxTerminationLog || len(got.termination) < maxTerminationLog-4 ||
		strings.ToValidUTF8(got.termination, "") != got.termination {
		t.Errorf("got %d bytes", len(got.termination))
	}
}

// Outside a container there is no termination log; that is no reason to fail.
func TestWithoutTerminationLog(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	program := &Program{Stderr: &stderr, Backoff: quick}
	missing := filepath.Join(t.TempDir(), "missing", "log")
	args := []string{"push", "--tar", "/nowhere", "--target", "example.com/a:1", "--termination-log", missing}
	code := program.Run(t.Context(), args)
	if code != 1 || !strings.Contains(stderr.String(), "Writing the termination log") ||
		!strings.Contains(stderr.String(), ReasonPushFailed) {
		t.Errorf("got code %d and %s", code, stderr.String())
	}
}
