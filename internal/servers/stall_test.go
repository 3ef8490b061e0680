// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// patience is the limit of the tests that stay within it, and pause is longer.
const (
	patience = 2 * time.Second
	pause    = 3 * time.Second
)

// guardedClient is one whose servers may be silent for so long.
func guardedClient(t *testing.T, limit time.Duration) *http.Client {
	t.Helper()
	transport, err := NewTransport("", limit)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// serve serves until the test ends. What the handler waits for ends before.
func serve(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, over <-chan struct{})) string {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, over) }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	return server.URL
}

// endless is content without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// slowly gives a byte and then, after a pause, another.
type slowly struct{ left int }

func (s *slowly) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(pause)
	s.left--
	p[0] = 'x'
	return 1, nil
}

func wantStall(t *testing.T, err error) {
	t.Helper()
	stall, ok := errors.AsType[*StallError](err)
	if !ok || !errors.Is(err, context.DeadlineExceeded) || !stall.Timeout() {
		t.Errorf("got %v, want a stall", err)
	}
}

func TestStallWhileReceiving(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request, over <-chan struct{}) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-over
	})
	resp, err := guardedClient(t, 100*time.Millisecond).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	wantStall(t, err)
	if string(got) != "begun" {
		t.Errorf("got %q before the stall", got)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestStallWhileSending(t *testing.T) {
	t.Parallel()
	url := serve(t, func(_ http.ResponseWriter, _ *http.Request, over <-chan struct{}) { <-over })
	resp, err := guardedClient(t, 100*time.Millisecond).Post(url, "", endless{})
	if err == nil {
		_ = resp.Body.Close()
	}
	wantStall(t, err)
}

// The transport itself sends a body a second time when a connection that was kept turns out to be closed.
func TestStallWhileSendingAgain(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request, over <-chan struct{}) {
		n := requests.Add(1)
		if n == 3 {
			<-over
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if n == 2 {
			panic(http.ErrAbortHandler)
		}
	})
	client := guardedClient(t, patience)
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(make([]byte, 64<<20)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "1")
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			continue
		}
		wantStall(t, err)
	}
	if got := requests.Load(); got != 3 {
		t.Errorf("%d requests were made, want 3", got)
	}
}

func TestSlowTransfersAreLeftAlone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// answer is what the server does with a request.
		answer func(w http.ResponseWriter, r *http.Request)
		body   io.Reader
		read   func(body io.Reader) ([]byte, error)
		want   string
	}{
		"the server gives a byte now and then, for longer than the limit": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				for range 30 {
					_, _ = io.WriteString(w, "x")
					_ = http.NewResponseController(w).Flush()
					time.Sleep(pause / 30)
				}
			},
			read: io.ReadAll, want: strings.Repeat("x", 30),
		},
		"what is sent comes slowly": {
			answer: func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) },
			body:   &slowly{left: 2},
			read:   io.ReadAll, want: "xx",
		},
		"what is received is read slowly": {
			answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "xyz") },
			read: func(body io.Reader) ([]byte, error) {
				var first [1]byte
				if _, err := io.ReadFull(body, first[:]); err != nil {
					return nil, err
				}
				time.Sleep(pause)
				rest, err := io.ReadAll(body)
				return append(first[:], rest...), err
			},
			want: "xyz",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}) { tc.answer(w, r) })
			resp, err := guardedClient(t, patience).Post(url, "", tc.body)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if got, err := tc.read(resp.Body); err != nil || string(got) != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestCancellingIsNoStall(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request, over <-chan struct{}) {
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-over
	})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := guardedClient(t, time.Hour).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	cancel()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

// Connections are used again, whether an answer has a body or not.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	peers := map[string]bool{}
	url := serve(t, func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}) {
		peers[r.RemoteAddr] = true // one request at a time
		_, _ = io.Copy(w, r.Body)
	})
	client := guardedClient(t, time.Minute)
	for range 10 {
		for _, method := range []string{http.MethodHead, http.MethodPut} {
			req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("text"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, copyErr := io.Copy(io.Discard, resp.Body)
			if err := errors.Join(copyErr, resp.Body.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(peers) != 1 {
		t.Errorf("%d connections were made, want 1", len(peers))
	}
}
