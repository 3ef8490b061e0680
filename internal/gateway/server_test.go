// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestStopInOrder follows a gateway from the signal to its end.
func TestStopInOrder(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	host := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			entered <- struct{}{}
			<-release
		}
		_, _ = w.Write([]byte("done"))
	})
	g := startGateway(t, routeTo(host, testTimeout), func(c *Config) { c.ShutdownDelay = time.Second })
	slow := make(chan answer)
	go func() { slow <- get(t, g.url+"/fn/demo/hello/slow") }()
	receive(t, entered)

	stopped := make(chan error)
	go func() { stopped <- g.stop() }()
	receive(t, g.server.stopping.Done())
	if a := get(t, g.url+"/readyz"); a.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz while stopping: %d", a.status)
	}
	if a := get(t, g.url+"/healthz"); a.status != http.StatusOK {
		t.Errorf("/healthz while stopping: %d", a.status)
	}
	if a := get(t, g.url+"/fn/demo/hello"); a.status != http.StatusOK || !a.closes {
		t.Errorf("a late call: %d, closes: %v", a.status, a.closes)
	}
	eventually(t, "the port is closed", func() bool {
		conn, err := net.Dial("tcp", g.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	select {
	case err := <-stopped:
		t.Fatalf("the gateway ended with a call in flight: %v", err)
	default:
	}
	close(release)
	if a := receive(t, slow); a.status != http.StatusOK || a.body != "done" {
		t.Errorf("the call in flight: %d %q", a.status, a.body)
	}
	if err := receive(t, stopped); err != nil {
		t.Errorf("stopped with %v", err)
	}
}

// TestStopEndsWhatDoesNotEnd has a call without an answer, a stream without an end and an upgraded connection.
func TestStopEndsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{}, 1)
	host := startRawUpstream(t, func(c rawCall) {
		switch c.req.URL.Path {
		case "/stream":
			c.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
		case "/ws":
			c.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		case "/silent":
			entered <- struct{}{}
		}
	})
	g := startGateway(t, routeTo(host, testTimeout), func(c *Config) { c.DrainTimeout = 50 * time.Millisecond })
	silent := make(chan answer)
	go func() { silent <- get(t, g.url+"/fn/demo/hello/silent") }()
	receive(t, entered)
	stream, err := newClient(t).Do(newRequest(t, http.MethodGet, g.url+"/fn/demo/hello/stream", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Body.Close() }()
	head, r, _ := upgradeCall(t, g)
	if !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("head:\n%s", head)
	}

	if err := g.stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
	checkRefusal(t, receive(t, silent), http.StatusServiceUnavailable, reasonStopping)
	if body, err := io.ReadAll(stream.Body); err == nil {
		t.Errorf("the stream ended as if it were complete: %q", body)
	}
	if rest, err := io.ReadAll(r); len(rest) > 0 {
		t.Errorf("the upgraded connection got %q, %v", rest, err)
	}
}

func TestListenFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	tests := map[string]struct{ public, metrics, want string }{
		"public":  {public: taken.Addr().String(), metrics: "0", want: "public address"},
		"metrics": {public: "127.0.0.1:0", metrics: taken.Addr().String(), want: "metrics address"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			s := New(Config{PublicAddress: tc.public, MetricsAddress: tc.metrics}, &staticResolver{},
				NewMetrics(registry), registry)
			if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run = %v, want an error about the %s", err, tc.want)
			}
		})
	}
}

// TestMetricsPort runs a gateway whole and reads its metrics, which the public port does not have.
func TestMetricsPort(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := New(Config{MaxPending: 1}, routeTo("unused", testTimeout), NewMetrics(registry), registry)
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.serve(t.Context(), public, metrics) }()
	t.Cleanup(func() {
		if err := receive(t, done); err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	get(t, "http://"+public.Addr().String()+"/fn/demo/unknown")
	eventually(t, "the call is counted", func() bool {
		a := get(t, "http://"+metrics.Addr().String()+"/metrics")
		return strings.Contains(a.body, `sless_gateway_requests_total{code="404",function="",namespace=""} 1`)
	})
	if a := get(t, "http://"+metrics.Addr().String()+"/fn/demo/hello"); a.status != http.StatusNotFound {
		t.Errorf("functions on the metrics port: %d", a.status)
	}
}

// TestHeadersAreBounded sends more header than the gateway reads.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	g := startFunction(t, func(http.ResponseWriter, *http.Request) {})
	req := newRequest(t, http.MethodGet, g.url+"/fn/demo/hello", nil)
	req.Header.Set("X-Big", strings.Repeat("x", 2*maxClientHeader))
	if a := do(t, newClient(t), req); a.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d", a.status)
	}
	req.Header.Set("X-Big", strings.Repeat("x", maxClientHeader/2))
	if a := do(t, newClient(t), req); a.status != http.StatusOK {
		t.Errorf("half as much got %d", a.status)
	}
}
