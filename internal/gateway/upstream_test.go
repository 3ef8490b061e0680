// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// rawCall is one request at a raw upstream.
type rawCall struct {
	t    testing.TB
	conn *net.TCPConn
	req  *http.Request // its body has not been read
	r    *bufio.Reader
	n    int // 1 for the first request on its connection
}

func (c rawCall) send(text string) {
	if _, err := c.conn.Write([]byte(text)); err != nil {
		c.t.Logf("upstream: %v", err)
	}
}

// reset closes the connection with RST, as the kernel does for a process that was killed with data unread.
func (c rawCall) reset() {
	_ = c.conn.SetLinger(0)
	_ = c.conn.Close()
}

// startRawUpstream answers each request with bytes of handle's own choice. Connections are kept open until handle
// closes them or the test ends.
func startRawUpstream(t testing.TB, handle func(rawCall)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveRaw(t, listener, handle)
	return listener.Addr().String()
}

func serveRaw(t testing.TB, listener net.Listener, handle func(rawCall)) {
	t.Helper()
	var (
		conns   sync.WaitGroup
		mu      sync.Mutex
		closers []func() error
	)
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, closeConn := range closers {
			_ = closeConn()
		}
		mu.Unlock()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			closers = append(closers, conn.Close)
			mu.Unlock()
			conns.Go(func() { serveRawConn(t, conn.(*net.TCPConn), handle) })
		}
	})
}

func serveRawConn(t testing.TB, conn *net.TCPConn, handle func(rawCall)) {
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	r := bufio.NewReader(conn)
	for n := 1; ; n++ {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		handle(rawCall{t: t, conn: conn, req: req, r: r, n: n})
	}
}

// freeAddress returns a port of this machine on which nobody listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// readHead reads up to the empty line that ends a header.
func readHead(t testing.TB, r *bufio.Reader) string {
	t.Helper()
	var head strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("reading a header after %q: %v", head.String(), err)
		}
		if head.WriteString(line); line == "\r\n" {
			return head.String()
		}
	}
}
