// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// drain is a function that reads its whole body and says how long it was.
func drain(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = fmt.Fprint(w, n)
}

// TestSlowUpload sends a body for longer than the function's timeout. That is not the function's fault.
func TestSlowUpload(t *testing.T) {
	t.Parallel()
	const timeout = 4 * time.Second // a pause of the machine is shorter
	g := startGateway(t, routeTo(startUpstream(t, drain), timeout))
	body, send := io.Pipe()
	go func() {
		for range 6 {
			time.Sleep(timeout / 4)
			_, _ = send.Write([]byte("part"))
		}
		_ = send.Close()
	}()
	a := do(t, newClient(t), newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", body))
	if a.status != http.StatusOK || a.body != "24" {
		t.Errorf("got %d %q", a.status, a.body)
	}
}

// TestClientStalls stops in the middle of a body. The answer must come although the transport waits for the client, and
// the connection must not serve another request.
func TestClientStalls(t *testing.T) {
	t.Parallel()
	g := startGateway(t, routeTo(startUpstream(t, drain), 2*time.Second))
	conn := dialRaw(t, g.addr)
	r := bufio.NewReader(conn)
	text := "POST /fn/demo/hello HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	a := readAnswer(t, r)
	checkRefusal(t, a, http.StatusRequestTimeout, reasonClientStalled)
	checkClosed(t, conn, r, a)
}

// checkClosed checks that what follows on the connection is not taken for another request.
func checkClosed(t *testing.T, w io.Writer, r *bufio.Reader, a answer) {
	t.Helper()
	if !a.closes {
		t.Error("the answer does not say that the connection closes")
	}
	_, _ = w.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"))
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		t.Errorf("the rest of a body was answered as a request: %q", rest)
	}
}

// TestBrokenBody sends a body that is no valid HTTP, with a request behind it that must not be served.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	g := startFunction(t, drain)
	conn := dialRaw(t, g.addr)
	r := bufio.NewReader(conn)
	text := "POST /fn/demo/hello HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n"
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	a := readAnswer(t, r)
	checkRefusal(t, a, http.StatusBadRequest, reasonBadRequest)
	checkClosed(t, conn, r, a)
}

// TestEarlyAnswer has a function that answers before it has the whole body, as for 413. The client must get the answer,
// and the rest of the body must not become a request.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	g := startFunction(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<10)); err != nil {
			http.Error(w, "over 1 KiB", http.StatusRequestEntityTooLarge)
		}
	})
	t.Run("the client goes on", func(t *testing.T) {
		t.Parallel()
		body := bytes.Repeat([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), 1<<18)
		a := do(t, newClient(t), newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", bytes.NewReader(body)))
		if a.status != http.StatusRequestEntityTooLarge || a.body != "over 1 KiB\n" {
			t.Errorf("got %d %q", a.status, a.body)
		}
	})
	t.Run("the client waits", func(t *testing.T) {
		t.Parallel()
		conn := dialRaw(t, g.addr)
		r := bufio.NewReader(conn)
		head := "POST /fn/demo/hello HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
		if _, err := conn.Write([]byte(head + strings.Repeat("x", 2000))); err != nil {
			t.Fatal(err)
		}
		a := readAnswer(t, r)
		if a.status != http.StatusRequestEntityTooLarge {
			t.Errorf("got %d %q", a.status, a.body)
		}
		checkClosed(t, conn, r, a)
	})
}

// TestExpectContinue has a client that sends its body only when the function wants it.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	g := startFunction(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		drain(w, r)
	})
	send := func(t *testing.T, path string) (*bufio.Reader, io.Writer) {
		t.Helper()
		conn := dialRaw(t, g.addr)
		_, err := fmt.Fprintf(conn, "POST /fn/demo/hello%s HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"+
			"Expect: 100-continue\r\n\r\n", path)
		if err != nil {
			t.Fatal(err)
		}
		return bufio.NewReader(conn), conn
	}
	t.Run("wanted", func(t *testing.T) {
		t.Parallel()
		r, w := send(t, "/yes")
		if head := readHead(t, r); !strings.HasPrefix(head, "HTTP/1.1 100 ") {
			t.Fatalf("got %q", head)
		}
		_, _ = w.Write([]byte("body"))
		if a := readAnswer(t, r); a.status != http.StatusOK || a.body != "4" {
			t.Errorf("got %d %q", a.status, a.body)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		r, w := send(t, "/no")
		a := readAnswer(t, r)
		if a.status != http.StatusForbidden {
			t.Errorf("got %d %q", a.status, a.body)
		}
		checkClosed(t, w, r, a)
	})
}

// TestConnectionIsReused sends several calls with bodies on one connection.
func TestConnectionIsReused(t *testing.T) {
	t.Parallel()
	g := startFunction(t, drain)
	conn := dialRaw(t, g.addr)
	r := bufio.NewReader(conn)
	for _, text := range []string{
		"Content-Length: 4\r\n\r\nbody",
		"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
		"Content-Length: 4\r\n\r\nbody",
	} {
		if _, err := fmt.Fprintf(conn, "POST /fn/demo/hello HTTP/1.1\r\nHost: x\r\n%s", text); err != nil {
			t.Fatal(err)
		}
		if a := readAnswer(t, r); a.status != http.StatusOK || a.body != "4" || a.closes {
			t.Fatalf("got %d %q, closes: %v", a.status, a.body, a.closes)
		}
	}
}
