// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestStreamArrivesInParts has a function that sends a part only after the client has seen the one before.
func TestStreamArrivesInParts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ contentType, contentLength string }{
		"server-sent events": {contentType: "text/event-stream"},
		"chunks":             {contentType: "application/octet-stream"},
		"known length":       {contentType: "text/plain", contentLength: "9"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := make(chan string)
			defer close(next)
			g := startFunction(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.contentType)
				if tc.contentLength != "" {
					w.Header().Set("Content-Length", tc.contentLength)
				}
				_ = http.NewResponseController(w).Flush() // the header alone must arrive too
				for range 3 {
					_, _ = w.Write([]byte(<-next))
					_ = http.NewResponseController(w).Flush()
				}
			})
			res, err := newClient(t).Do(newRequest(t, http.MethodGet, g.url+"/fn/demo/hello", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			for i := range 3 {
				part := fmt.Sprintf("%d:x", i)
				next <- part
				buf := make([]byte, len(part))
				if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != part {
					t.Fatalf("part %d: got %q, %v", i, buf, err)
				}
			}
			if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
				t.Errorf("after the parts: %q, %v", rest, err)
			}
		})
	}
}

// TestDuplex has a function that answers each line before the client sends the next one.
func TestDuplex(t *testing.T) {
	t.Parallel()
	g := startFunction(t, func(w http.ResponseWriter, r *http.Request) {
		controller := http.NewResponseController(w)
		_ = controller.EnableFullDuplex()
		_ = controller.Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			_, _ = fmt.Fprintf(w, "got %s\n", lines.Text())
			_ = controller.Flush()
		}
	})
	body, send := io.Pipe()
	defer func() { _ = send.Close() }()
	res, err := newClient(t).Do(newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answers := bufio.NewReader(res.Body)
	for i := range 3 {
		if _, err := fmt.Fprintf(send, "%d\n", i); err != nil {
			t.Fatal(err)
		}
		if got, err := answers.ReadString('\n'); got != fmt.Sprintf("got %d\n", i) {
			t.Fatalf("line %d: got %q, %v", i, got, err)
		}
	}
	_ = send.Close()
	if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 {
		t.Errorf("after the lines: %q, %v", rest, err)
	}
}

// upgradeCall sends an upgrade request and returns the connection after its 101.
func upgradeCall(t *testing.T, g *testGateway) (head string, r *bufio.Reader, w io.Writer) {
	t.Helper()
	conn := dialRaw(t, g.addr)
	request := "GET /fn/demo/hello/ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\nearly"
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	r = bufio.NewReader(conn)
	return readHead(t, r), r, conn
}

// startEcho is a function that upgrades and then sends back whatever comes, until the line "bye".
func startEcho(t *testing.T, ended chan<- error) *testGateway {
	host := startRawUpstream(t, func(c rawCall) {
		if c.req.URL.Path != "/ws" || c.req.Header.Get("Upgrade") != "websocket" ||
			!strings.EqualFold(c.req.Header.Get("Connection"), "Upgrade") || c.req.Header.Get("Sec-WebSocket-Key") == "" {
			c.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			return
		}
		c.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade, X-Named\r\nUpgrade: websocket\r\n" +
			"X-Named: secret\r\nSec-WebSocket-Accept: ok\r\n\r\nwelcome\n")
		_, err := io.Copy(c.conn, c.r)
		ended <- err
		_ = c.conn.Close()
	})
	return startGateway(t, routeTo(host, testTimeout))
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	g := startEcho(t, ended)
	head, r, w := upgradeCall(t, g)
	if !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "Upgrade: websocket\r\n") ||
		!strings.Contains(head, "Sec-Websocket-Accept: ok\r\n") || strings.Contains(head, "secret") ||
		strings.Count(head, HeaderRequestID+": ") != 1 {
		t.Fatalf("head:\n%s", head)
	}
	if got, err := r.ReadString('\n'); got != "welcome\n" {
		t.Fatalf("got %q, %v", got, err)
	}
	// What the client sent with its request must arrive too.
	if _, err := w.Write([]byte(" bird\x00\xff\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReadString('\n'); got != "early bird\x00\xff\n" {
		t.Fatalf("got %q, %v", got, err)
	}
	if err := w.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, ended); err != nil {
		t.Errorf("the function saw %v instead of the end", err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q, %v", rest, err)
	}
}

func TestUpgradeThatTheFunctionDeclines(t *testing.T) {
	t.Parallel()
	g := startFunction(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUpgradeRequired) })
	if head, _, _ := upgradeCall(t, g); !strings.HasPrefix(head, "HTTP/1.1 426 ") {
		t.Errorf("head:\n%s", head)
	}
}

// TestAbortInMidBody wants the client to see that an answer is not complete.
func TestAbortInMidBody(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"known length": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
		"chunked":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			host := startRawUpstream(t, func(c rawCall) {
				c.send(text)
				<-release
				c.reset()
			})
			g := startGateway(t, routeTo(host, testTimeout))
			res, err := newClient(t).Do(newRequest(t, http.MethodGet, g.url+"/fn/demo/hello", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			half := make([]byte, 4)
			if _, err := io.ReadFull(res.Body, half); err != nil {
				t.Fatal(err)
			}
			close(release)
			if rest, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the answer ended with %q, %v: that looks complete", rest, err)
			}
			eventually(t, "the abort is counted", func() bool {
				return metricValue(t, g, "sless_gateway_aborted_responses_total", hello, "") == 1
			})
		})
	}
}

// TestStreamOutlivesTheTimeout has a function whose answer begins in time and goes on for longer than its timeout.
func TestStreamOutlivesTheTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	host := startUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("a"))
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = w.Write([]byte("b"))
	})
	const timeout = 3 * time.Second // a pause of the machine is shorter
	g := startGateway(t, routeTo(host, timeout))
	res, err := newClient(t).Do(newRequest(t, http.MethodGet, g.url+"/fn/demo/hello", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	time.Sleep(timeout + timeout/3)
	close(release)
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "ab" {
		t.Errorf("got %q, %v", body, err)
	}
}
