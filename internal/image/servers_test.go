// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// registryEnv names the variable with the path of a binary of the distribution registry; the tests that need one are
// skipped without it.
const registryEnv = "SLESS_TEST_REGISTRY_BIN"

// quick tries as often as the default but does not wait.
var quick = remote.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 3}

// traffic is what went to a registry.
type traffic struct {
	mu        sync.Mutex
	requests  int
	mounts    int   // uploads that were asked for as a mount
	blobBytes int64 // bytes of blobs that were sent
	manifests int   // manifests that were sent
}

// take gives what was counted since the last call.
func (c *traffic) take() (requests, mounts, manifests int, blobBytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests, mounts, manifests, blobBytes = c.requests, c.mounts, c.manifests, c.blobBytes
	c.requests, c.mounts, c.manifests, c.blobBytes = 0, 0, 0, 0
	return requests, mounts, manifests, blobBytes
}

func (c *traffic) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests++
		if r.Method == http.MethodPost && r.URL.Query().Get("mount") != "" {
			c.mounts++
		}
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
			c.manifests++
		}
		c.mu.Unlock()
		if strings.Contains(r.URL.Path, "/blobs/uploads/") {
			r.Body = &countingBody{ReadCloser: r.Body, traffic: c}
		}
		next.ServeHTTP(w, r)
	})
}

type countingBody struct {
	io.ReadCloser

	traffic *traffic
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.traffic.mu.Lock()
	b.traffic.blobBytes += int64(n)
	b.traffic.mu.Unlock()
	return n, err
}

// perRepository gives the in-process registry what it lacks: a blob is visible in a repository only after it was pushed
// or mounted there.
type perRepository struct {
	next http.Handler

	mu    sync.Mutex
	blobs map[string]bool // "repo@digest"
}

var blobPath = regexp.MustCompile(`^/v2/(.+)/blobs/(uploads/.*|sha256:[0-9a-f]{64})$`)

func (p *perRepository) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	match := blobPath.FindStringSubmatch(r.URL.Path)
	if match == nil {
		p.next.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	repo, query := match[1], r.URL.Query()
	switch {
	case r.Method == http.MethodPost && p.blobs[query.Get("from")+"@"+query.Get("mount")]:
		p.blobs[repo+"@"+query.Get("mount")] = true
		w.WriteHeader(http.StatusCreated)
		return
	case r.Method == http.MethodPut:
		p.blobs[repo+"@"+query.Get("digest")] = true
	case strings.HasPrefix(match[2], "sha256:") && !p.blobs[repo+"@"+match[2]]:
		http.NotFound(w, r)
		return
	}
	p.next.ServeHTTP(w, r)
}

// startRegistry runs a registry in this process and gives its host.
func startRegistry(t *testing.T) (string, *traffic) {
	t.Helper()
	handler := &perRepository{next: registry.New(registry.Logger(log.New(io.Discard, "", 0))), blobs: map[string]bool{}}
	return serve(t, handler)
}

// startDistribution runs a real registry on a folder of the test, behind a proxy that counts.
func startDistribution(t *testing.T) (string, *traffic) {
	t.Helper()
	binary := os.Getenv(registryEnv)
	if binary == "" {
		t.Skip(registryEnv + " is not set")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}
http: {addr: %q}
`, t.TempDir(), address)
	configFile := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(configFile, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, "serve", configFile)
	command.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	waitForPort(t, address)
	target := &url.URL{Scheme: "http", Host: address}
	return serve(t, &httputil.ReverseProxy{
		ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the registry puts it into the addresses that it gives
		},
	})
}

func waitForPort(t *testing.T, address string) {
	t.Helper()
	for range 200 {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("the registry does not listen on %s", address)
}

func serve(t *testing.T, handler http.Handler) (string, *traffic) {
	t.Helper()
	counter := &traffic{}
	server := httptest.NewServer(counter.count(handler))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), counter
}

func newTestRegistry(t *testing.T, host string) *Registry {
	t.Helper()
	return newRegistry(t, Config{Insecure: []string{host}, Architecture: "amd64", Backoff: quick})
}

func newRegistry(t *testing.T, cfg Config) *Registry {
	t.Helper()
	if cfg.Keychain == nil {
		cfg.Keychain = mapKeychain{}
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
