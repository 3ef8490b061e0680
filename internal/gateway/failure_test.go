// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	building := types.NamespacedName{Namespace: "demo", Name: "building"}
	disabled := types.NamespacedName{Namespace: "demo", Name: "off"}
	resolver := &staticResolver{refusals: map[types.NamespacedName]*Refusal{
		building: {Status: 503, Reason: "Building", Message: "the image is built", RetryAfter: 1500 * time.Millisecond},
		disabled: {Status: 503, Reason: "Disabled", Message: "no trigger is enabled"},
	}}
	g := startGateway(t, resolver)
	tests := map[string]struct {
		method, path   string
		wantStatus     int
		wantReason     string
		wantRetryAfter string
	}{
		"root":               {path: "/", wantStatus: 404, wantReason: "NotFound"},
		"metrics":            {path: "/metrics", wantStatus: 404, wantReason: "NotFound"},
		"api":                {path: "/v1/namespaces/demo/functions", wantStatus: 404, wantReason: "NotFound"},
		"profiles":           {path: "/debug/pprof/", wantStatus: 404, wantReason: "NotFound"},
		"below healthz":      {path: "/healthz/x", wantStatus: 404, wantReason: "NotFound"},
		"no function":        {path: "/fn/demo", wantStatus: 404, wantReason: "NotFound"},
		"unknown":            {path: "/fn/demo/unknown/x", wantStatus: 404, wantReason: "NotFound"},
		"dots to a function": {path: "/x/../fn/demo/off", wantStatus: 404, wantReason: "NotFound"},
		"building":           {path: "/fn/demo/building", wantStatus: 503, wantReason: "Building", wantRetryAfter: "2"},
		"disabled":           {path: "/fn/demo/off/x", wantStatus: 503, wantReason: "Disabled"},
		"with a body":        {method: "POST", path: "/fn/demo/off", wantStatus: 503, wantReason: "Disabled"},
		"connect":            {method: "CONNECT", path: "/fn/demo/off", wantStatus: 405, wantReason: "MethodNotAllowed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			method := tc.method
			if method == "" {
				method = http.MethodGet
			}
			conn := dialRaw(t, g.addr)
			_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody",
				method, tc.path)
			if err != nil {
				t.Fatal(err)
			}
			a := readAnswer(t, bufio.NewReader(conn))
			checkRefusal(t, a, tc.wantStatus, tc.wantReason)
			if got := a.header.Get("Retry-After"); got != tc.wantRetryAfter {
				t.Errorf("Retry-After = %q, want %q", got, tc.wantRetryAfter)
			}
		})
	}
}

// readAnswer reads one answer from a raw connection.
func readAnswer(t testing.TB, r *bufio.Reader) answer {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("reading an answer: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		t.Fatalf("reading a body: %v", err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: string(body), closes: res.Close}
}

func TestBeforeTheFunctionsAreKnown(t *testing.T) {
	t.Parallel()
	g := startGateway(t, &staticResolver{unready: true})
	a := get(t, g.url+"/fn/demo/hello")
	checkRefusal(t, a, http.StatusServiceUnavailable, reasonStarting)
	if a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After = %q", a.header.Get("Retry-After"))
	}
	if a := get(t, g.url+"/readyz"); a.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz = %d", a.status)
	}
	if a := get(t, g.url+"/healthz"); a.status != http.StatusOK {
		t.Errorf("/healthz = %d", a.status)
	}
}

// TestDialRetry calls a function whose pod begins to listen only when the gateway has failed to connect before.
func TestDialRetry(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	g := startGateway(t, routeTo(addr, testTimeout))
	done := make(chan answer)
	go func() {
		done <- do(t, newClient(t), newRequest(t, http.MethodPost, g.url+"/fn/demo/hello",
			struct{ io.Reader }{strings.NewReader("streamed, of unknown length")}))
	}()
	eventually(t, "the call waits", func() bool {
		return metricValue(t, g, "sless_gateway_pending_requests", hello, "") == 1
	})
	time.Sleep(5 * firstBackoff) // several attempts fail
	var listener net.Listener
	eventually(t, "the port is free", func() (ok bool) {
		var err error
		listener, err = net.Listen("tcp", addr)
		return err == nil
	})
	serveRaw(t, listener, func(c rawCall) {
		body, _ := io.ReadAll(c.req.Body)
		c.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	})
	if a := receive(t, done); a.status != http.StatusOK || a.body != "streamed, of unknown length" {
		t.Errorf("got %d %q", a.status, a.body)
	}
}

func TestConnectFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		timeout time.Duration
		tweak   func(*Config)
	}{
		"the window ends":  {timeout: testTimeout, tweak: func(c *Config) { c.ConnectWindow = 50 * time.Millisecond }},
		"the timeout ends": {timeout: 50 * time.Millisecond, tweak: func(c *Config) { c.TimeoutGrace = time.Minute }},
		"so does the call": {
			timeout: 50 * time.Millisecond, tweak: func(c *Config) { c.TimeoutGrace = -10 * time.Millisecond },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := freeAddress(t)
			g := startGateway(t, routeTo(addr, tc.timeout), tc.tweak)
			body := checkRefusal(t, get(t, g.url+"/fn/demo/hello"), http.StatusBadGateway, reasonConnectFailed)
			if strings.Contains(body.Error, "127.0.0.1") {
				t.Errorf("the answer tells an address: %s", body.Error)
			}
		})
	}
}

// TestNoCallIsMadeTwice breaks a connection that was used before, after the function got the call. http.Transport alone
// would send such a GET again.
func TestNoCallIsMadeTwice(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			host := startRawUpstream(t, func(c rawCall) {
				if c.n == 1 {
					c.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					return
				}
				calls.Add(1)
				c.reset()
			})
			g := startGateway(t, routeTo(host, testTimeout))
			if a := get(t, g.url+"/fn/demo/hello"); a.status != http.StatusOK {
				t.Fatalf("first call: %d", a.status)
			}
			a := do(t, newClient(t), newRequest(t, method, g.url+"/fn/demo/hello", nil))
			if method == "HEAD" {
				if a.status != http.StatusBadGateway {
					t.Errorf("status %d", a.status)
				}
			} else {
				checkRefusal(t, a, http.StatusBadGateway, reasonUpstreamFailed)
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("the function was called %d times", n)
			}
		})
	}
}

func TestUpstreamFails(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"no answer":      "",
		"no HTTP":        "SSH-2.0-x\r\n",
		"broken header":  "HTTP/1.1 200 OK\r\nContent-Le",
		"smuggled":       "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"endless header": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxUpstreamHeader+1) + "\r\n\r\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := startRawUpstream(t, func(c rawCall) {
				c.send(text)
				_ = c.conn.Close()
			})
			g := startGateway(t, routeTo(host, testTimeout))
			checkRefusal(t, get(t, g.url+"/fn/demo/hello"), http.StatusBadGateway, reasonUpstreamFailed)
		})
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	host := startUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done() // the gateway must let go of the function
		gone <- struct{}{}
	})
	g := startGateway(t, routeTo(host, 2*time.Second)) // by then the function is reached
	for _, body := range []string{"", "body"} {
		done := make(chan answer)
		go func() {
			done <- do(t, newClient(t), newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", strings.NewReader(body)))
		}()
		receive(t, gone)
		checkRefusal(t, receive(t, done), http.StatusGatewayTimeout, reasonTimeout)
	}
}

func TestTooManyCalls(t *testing.T) {
	t.Parallel()
	const pending, capacity, limit = 1, 2, 3
	entered, release := make(chan struct{}), make(chan struct{})
	resolver := routeTo(startUpstream(t, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	}), testTimeout)
	resolver.routes[hello] = Route{Function: hello, Host: resolver.routes[hello].Host, Timeout: testTimeout, Capacity: capacity}
	g := startGateway(t, resolver, func(c *Config) { c.MaxPending = pending })
	var calls sync.WaitGroup
	for range limit {
		calls.Go(func() {
			if a := get(t, g.url+"/fn/demo/hello"); a.status != http.StatusOK {
				t.Errorf("a call within the limit got %d", a.status)
			}
		})
		receive(t, entered)
	}
	a := get(t, g.url+"/fn/demo/hello")
	checkRefusal(t, a, http.StatusTooManyRequests, reasonTooManyRequests)
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(release)
	calls.Wait()
	eventually(t, "places are given back", func() bool {
		g.server.proxy.limiter.mu.Lock()
		defer g.server.proxy.limiter.mu.Unlock()
		return len(g.server.proxy.limiter.calls) == 0
	})
}

func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	entered, gone := make(chan struct{}), make(chan struct{})
	g := startFunction(t, func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	conn := dialRaw(t, g.addr)
	if _, err := conn.Write([]byte("GET /fn/demo/hello HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	receive(t, entered)
	_ = conn.Close()
	receive(t, gone)
	eventually(t, "the call is counted", func() bool {
		return metricValue(t, g, "sless_gateway_requests_total", hello, "499") == 1
	})
	if n := metricValue(t, g, "sless_gateway_aborted_responses_total", hello, ""); n != -1 {
		t.Errorf("it counts as %v broken answers too", n)
	}
}
