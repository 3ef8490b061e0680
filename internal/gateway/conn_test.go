// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestIdleConnectionsThatTheFunctionClosed calls a function whose server closes each connection after its answer,
// without saying so. No call may fail.
func TestIdleConnectionsThatTheFunctionClosed(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 1)
	host := startRawUpstream(t, func(c rawCall) {
		body, _ := io.ReadAll(c.req.Body)
		c.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		_ = c.conn.Close()
		closed <- struct{}{}
	})
	g := startGateway(t, routeTo(host, testTimeout))
	client := newClient(t)
	for i := range 200 {
		a := do(t, client, newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", strings.NewReader("body")))
		if a.status != http.StatusOK || a.body != "body" {
			t.Fatalf("call %d: got %d %q", i, a.status, a.body)
		}
		receive(t, closed)
	}
}

// deadConn is a connection on which writing fails after it was used once.
type deadConn struct {
	net.Conn
	used atomic.Bool
}

func (c *deadConn) Write(p []byte) (int, error) {
	if c.used.Swap(true) {
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

// TestReplay has each second write fail, so that each call but the first meets a dead connection after some of its body
// was read.
func TestReplay(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method string
		size   int
		length bool // the client announces the length
	}{
		"no body":               {method: http.MethodGet},
		"no body, POST":         {method: http.MethodPost},
		"small":                 {method: http.MethodPost, size: 10, length: true},
		"small, chunked":        {method: http.MethodPost, size: 10},
		"over one buffer":       {method: http.MethodPost, size: 100_000, length: true},
		"over one, in chunks":   {method: http.MethodPost, size: 100_000},
		"exactly what is kept":  {method: http.MethodPost, size: maxReplay, length: true},
		"one more than is kept": {method: http.MethodPost, size: maxReplay + 1, length: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan seenRequest, 1)
			g := startFunction(t, recordInto(seen))
			var dials atomic.Int32
			g.server.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				if err == nil && dials.Add(1) == 1 {
					conn = &deadConn{Conn: conn}
				}
				return newCountedConn(conn), err
			}
			if a := get(t, g.url+"/fn/demo/hello"); a.status != http.StatusOK {
				t.Fatalf("first call: %d", a.status)
			}
			receive(t, seen)
			want := strings.Repeat("0123456789abcdef", tc.size/16+1)[:tc.size]
			var body io.Reader = strings.NewReader(want)
			if !tc.length && tc.size > 0 {
				body = struct{ io.Reader }{body}
			}
			if a := do(t, newClient(t), newRequest(t, tc.method, g.url+"/fn/demo/hello", body)); a.status != http.StatusOK {
				t.Fatalf("second call: %d %s", a.status, a.body)
			}
			if got := string(receive(t, seen).body); got != want {
				t.Errorf("the function got %d bytes, want %d, equal: %v", len(got), len(want), got == want)
			}
			if n := dials.Load(); n != 2 {
				t.Errorf("there were %d connections, want 2", n)
			}
		})
	}
}

func TestWriteOnIdleConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn := newCountedConn(dialRaw(t, listener.Addr().String()))
	peer, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()

	conn.wasIdle.Store(true)
	if n, err := conn.Write([]byte("abc")); n != 3 || err != nil || conn.written.Load() != 3 {
		t.Errorf("on an open connection: %d, %v, %d counted", n, err, conn.written.Load())
	}
	if err := peer.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Write([]byte("de")); n != 2 || err != nil {
		t.Errorf("in the middle of a call: %d, %v", n, err)
	}
	conn.wasIdle.Store(true)
	if n, err := conn.Write([]byte("f")); n != 0 || !errors.Is(err, errPeerClosed) || conn.written.Load() != 5 {
		t.Errorf("on a closed connection: %d, %v, %d counted", n, err, conn.written.Load())
	}
}
