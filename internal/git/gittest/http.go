// SPDX-License-Identifier: Apache-2.0

package gittest

import (
	"bytes"
	"context"
	"net/http"
	"net/http/cgi"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// HTTP serves the repositories in a folder by git's own HTTP backend, and counts what it is asked for.
type HTTP struct {
	backend *cgi.Handler

	mu                 sync.Mutex
	username, password string
	// Lists is the number of times that somebody asked for the refs, Packs how often for content.
	Lists, Packs atomic.Int64
}

// NewHTTP returns a handler that serves the repositories in root.
func NewHTTP(t testing.TB, root string) *HTTP {
	t.Helper()
	out, err := exec.CommandContext(context.Background(), Program(t), "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &HTTP{backend: &cgi.Handler{
		Path:   filepath.Join(string(bytes.TrimSpace(out)), "git-http-backend"),
		Env:    append(environment(root), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
		Stderr: discard{},
	}}
}

// Protect lets only those in who have the password.
func (h *HTTP) Protect(username, password string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.username, h.password = username, password
}

func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	username, password := h.username, h.password
	h.mu.Unlock()
	if password != "" {
		gotUser, gotPassword, _ := r.BasicAuth()
		if gotUser != username || gotPassword != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			// A careless server repeats what it was told.
			http.Error(w, "not allowed: "+gotUser+" "+gotPassword, http.StatusUnauthorized)
			return
		}
	}
	if r.Method == http.MethodGet {
		h.Lists.Add(1)
	} else {
		h.Packs.Add(1)
	}
	h.backend.ServeHTTP(w, r)
}

// discard drops what the backend says about requests that fail on purpose.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
