// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// testTimeout bounds everything that a test waits for. No test waits for it to pass.
const testTimeout = 30 * time.Second

var (
	hello    = types.NamespacedName{Namespace: "demo", Name: "hello"}
	testTime = time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)
)

// staticResolver knows the functions that a test gives it.
type staticResolver struct {
	routes   map[types.NamespacedName]Route
	refusals map[types.NamespacedName]*Refusal
	triggers *triggerTable
	unready  bool
}

func (r *staticResolver) Ready() bool { return !r.unready }

func (r *staticResolver) Host(host string) (types.NamespacedName, bool) {
	if r.triggers == nil {
		return types.NamespacedName{}, false
	}
	return r.triggers.Host(host)
}

func (r *staticResolver) Admit(fn types.NamespacedName, host string, req *http.Request) *Refusal {
	if r.triggers == nil {
		return nil
	}
	return r.triggers.Admit(fn, host, req)
}

func (r *staticResolver) Resolve(_ context.Context, fn types.NamespacedName) (Route, error) {
	if refusal, ok := r.refusals[fn]; ok {
		return Route{}, refusal
	}
	if route, ok := r.routes[fn]; ok {
		return route, nil
	}
	return Route{}, functionNotFound(fn)
}

// routeTo is a resolver that knows the function demo/hello at host.
func routeTo(host string, timeout time.Duration) *staticResolver {
	return &staticResolver{routes: map[types.NamespacedName]Route{hello: {Function: hello, Host: host, Timeout: timeout}}}
}

// testGateway is a gateway that serves on a port of its own.
type testGateway struct {
	server *Server
	addr   string
	url    string
	stop   func() error // stops the gateway as a signal would, and waits for it
	reg    *prometheus.Registry
}

func startGateway(t testing.TB, resolver Resolver, tweaks ...func(*Config)) *testGateway {
	t.Helper()
	cfg := Config{
		MaxPending: 100, ConnectWindow: testTimeout, TimeoutGrace: time.Millisecond, DrainTimeout: testTimeout,
	}
	if t, ok := t.(*testing.T); ok {
		cfg.Log = testr.NewWithInterface(quietAfter{t}, testr.Options{Verbosity: 1})
	}
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listening: %v", err)
	}
	registry := prometheus.NewRegistry()
	g := &testGateway{
		server: New(cfg, resolver, NewMetrics(registry), registry),
		addr:   listener.Addr().String(),
		url:    "http://" + listener.Addr().String(),
		reg:    registry,
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- g.server.serve(ctx, listener, nil) }()
	g.stop = func() error {
		cancel()
		err := <-stopped
		stopped <- err // for the clean-up
		return err
	}
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Errorf("gateway ended with %v", err)
		}
	})
	return g
}

// quietAfter keeps log lines of goroutines that outlive a test from failing it.
type quietAfter struct{ t *testing.T }

func (q quietAfter) Helper() {}

func (q quietAfter) Log(args ...any) {
	if q.t.Context().Err() == nil {
		q.t.Log(args...)
	}
}

// startUpstream serves handler and returns its host:port.
func startUpstream(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	upstream := httptest.NewServer(handler)
	t.Cleanup(upstream.Close)
	return strings.TrimPrefix(upstream.URL, "http://")
}

// startFunction serves handler as the function demo/hello behind a gateway.
func startFunction(t testing.TB, handler http.HandlerFunc, tweaks ...func(*Config)) *testGateway {
	t.Helper()
	return startGateway(t, routeTo(startUpstream(t, handler), testTimeout), tweaks...)
}

// newClient returns a client that changes nothing and follows no redirect.
func newClient(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		Timeout:       testTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	closes bool // the server closes the connection after this answer
}

func do(t testing.TB, client *http.Client, req *http.Request) answer {
	t.Helper()
	res, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		t.Fatalf("%s %s: reading the body: %v", req.Method, req.URL, err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: string(body), closes: res.Close}
}

func get(t testing.TB, url string) answer {
	t.Helper()
	return do(t, newClient(t), newRequest(t, http.MethodGet, url, nil))
}

func newRequest(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatalf("making a request: %v", err)
	}
	return req
}

// checkRefusal checks that a is the gateway's own answer, complete and with the same request id in header and body.
func checkRefusal(t testing.TB, a answer, wantStatus int, wantReason string) errorBody {
	t.Helper()
	var body errorBody
	decoder := json.NewDecoder(strings.NewReader(a.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		t.Fatalf("status %d, body %q is not the gateway's JSON: %v", a.status, a.body, err)
	}
	if a.status != wantStatus || body.Reason != wantReason {
		t.Errorf("got %d %s (%s), want %d %s", a.status, body.Reason, body.Error, wantStatus, wantReason)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q", got)
	}
	if id := a.header.Values(HeaderRequestID); len(id) != 1 || id[0] == "" || id[0] != body.RequestID {
		t.Errorf("request id is %q in the header and %q in the body", id, body.RequestID)
	}
	if body.Error == "" {
		t.Error("the answer has no message")
	}
	return body
}

// rawConn is a client that writes and reads bytes itself.
func dialRaw(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, testTimeout)
	if err != nil {
		t.Fatalf("dialling: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatalf("setting a deadline: %v", err)
	}
	return conn
}

// receive waits for a value of another goroutine.
func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(testTimeout):
		t.Fatal("nothing came in time")
		panic("unreachable")
	}
}

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}
