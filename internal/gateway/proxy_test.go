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

	"github.com/google/go-cmp/cmp"
)

// seenRequest is what a function got.
type seenRequest struct {
	method, host, uri string
	header            http.Header
	trailer           http.Header
	body              []byte
}

// recordInto returns a function that keeps what it gets.
func recordInto(seen chan<- seenRequest) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- seenRequest{
			method: r.Method, host: r.Host, uri: r.RequestURI, header: r.Header, trailer: r.Trailer, body: body,
		}
	}
}

func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestRequestIsKept(t *testing.T) {
	t.Parallel()
	seen := make(chan seenRequest, 1)
	g := startFunction(t, recordInto(seen))
	client := newClient(t)
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "MADEUP"} {
		for _, body := range [][]byte{nil, allBytes()} {
			req := newRequest(t, method, g.url+"/fn/demo/hello/p?q=1", bytes.NewReader(body))
			req.Host = "shop.example"
			req.Header.Set("Content-Type", "application/x-odd")
			req.Header["X-Many"] = []string{"1", "2"}
			if a := do(t, client, req); a.status != http.StatusOK {
				t.Fatalf("%s: status %d: %s", method, a.status, a.body)
			}
			got := receive(t, seen)
			if got.method != method || got.uri != "/p?q=1" || got.host != "shop.example" || !bytes.Equal(got.body, body) {
				t.Errorf("%s with %d bytes: the function got %s %s, host %s, %d bytes",
					method, len(body), got.method, got.uri, got.host, len(got.body))
			}
			want := http.Header{
				"Content-Type": {"application/x-odd"}, "X-Many": {"1", "2"}, "User-Agent": {"Go-http-client/1.1"},
				"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"shop.example"}, "X-Forwarded-Proto": {"http"},
				"X-Forwarded-Prefix": {"/fn/demo/hello"}, HeaderRequestID: got.header[HeaderRequestID],
				"Content-Length": got.header["Content-Length"],
			}
			if got.header["Content-Length"] == nil {
				delete(want, "Content-Length")
			}
			if diff := cmp.Diff(want, got.header); diff != "" {
				t.Errorf("%s: headers (-want +got):\n%s", method, diff)
			}
		}
	}
}

func TestRequestTrailers(t *testing.T) {
	t.Parallel()
	seen := make(chan seenRequest, 1)
	g := startFunction(t, recordInto(seen))
	req := newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", struct{ io.Reader }{strings.NewReader("body")})
	req.Trailer = http.Header{"X-Sum": {"42"}}
	do(t, newClient(t), req)
	if got := receive(t, seen); got.trailer.Get("X-Sum") != "42" {
		t.Errorf("the function got the trailers %v", got.trailer)
	}
}

// answerOddly is a function whose answers are easily changed on the way.
func answerOddly(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["X-Many"] = []string{"1", "2"}
	h["Content-Type"] = nil // the function says nothing about its body
	switch r.URL.Path {
	case "/redirect":
		h.Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
	case "/none":
		w.WriteHeader(http.StatusNoContent)
	case "/error":
		h.Set("Retry-After", "7")
		w.WriteHeader(http.StatusGatewayTimeout)
		_, _ = w.Write([]byte("<html>of the function"))
	case "/zipped":
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write([]byte("not really gzip"))
	case "/trailer":
		h.Set("Trailer", "X-Sum")
		_, _ = w.Write(allBytes())
		h.Set("X-Sum", "42")
	default:
		_, _ = w.Write(allBytes())
	}
}

func TestAnswerIsKept(t *testing.T) {
	t.Parallel()
	g := startFunction(t, answerOddly)
	bytes256 := string(allBytes())
	tests := map[string]struct {
		path       string
		wantStatus int
		wantBody   string
		wantHeader http.Header
	}{
		"bytes": {path: "/", wantStatus: 200, wantBody: bytes256, wantHeader: http.Header{"Content-Length": {"256"}}},
		"redirect": {
			path: "/redirect", wantStatus: 302,
			wantHeader: http.Header{"Location": {"/elsewhere"}, "Content-Length": {"0"}},
		},
		"nothing": {path: "/none", wantStatus: 204},
		"the function's own 504": {
			path: "/error", wantStatus: 504, wantBody: "<html>of the function",
			wantHeader: http.Header{"Content-Length": {"21"}, "Retry-After": {"7"}},
		},
		"encoded": {
			path: "/zipped", wantStatus: 200, wantBody: "not really gzip",
			wantHeader: http.Header{"Content-Encoding": {"gzip"}, "Content-Length": {"15"}},
		},
		"trailer": {path: "/trailer", wantStatus: 200, wantBody: bytes256},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			res, err := newClient(t).Do(newRequest(t, http.MethodGet, g.url+"/fn/demo/hello"+tc.path, nil))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != tc.wantStatus || string(body) != tc.wantBody {
				t.Errorf("got %d %q, want %d %q", res.StatusCode, body, tc.wantStatus, tc.wantBody)
			}
			want := tc.wantHeader.Clone()
			if want == nil {
				want = http.Header{}
			}
			want["X-Many"] = []string{"1", "2"}
			want[HeaderRequestID] = res.Header[HeaderRequestID]
			want["Date"] = res.Header["Date"]
			if diff := cmp.Diff(want, res.Header); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if tc.path == "/trailer" && res.Trailer.Get("X-Sum") != "42" {
				t.Errorf("trailers = %v", res.Trailer)
			}
		})
	}
}

// hopByHopLines are headers that must end at the gateway, whoever sends them.
const hopByHopLines = "Connection: X-Named, x-other-named\r\n" +
	"Connection: X-Third\r\n" +
	"X-Named: secret\r\nX-Other-Named: secret\r\nX-Third: secret\r\n" +
	"Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n" +
	"Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Authenticate: Basic\r\n" +
	"Te: gzip\r\nUpgrade: h2c\r\nX-Kept: yes\r\n"

func checkHopByHop(t *testing.T, who string, h http.Header) {
	t.Helper()
	for _, name := range append([]string{"X-Named", "X-Other-Named", "X-Third"}, hopByHop...) {
		if got := h.Values(name); len(got) > 0 {
			t.Errorf("%s got %s: %q", who, name, got)
		}
	}
	if h.Get("X-Kept") != "yes" {
		t.Errorf("%s lost X-Kept", who)
	}
}

func TestHopByHopHeadersOfTheClient(t *testing.T) {
	t.Parallel()
	seen := make(chan seenRequest, 1)
	g := startFunction(t, recordInto(seen))
	conn := dialRaw(t, g.addr)
	if _, err := fmt.Fprintf(conn, "GET /fn/demo/hello HTTP/1.1\r\nHost: x\r\n%s\r\n", hopByHopLines); err != nil {
		t.Fatal(err)
	}
	checkHopByHop(t, "the function", receive(t, seen).header)
}

func TestHopByHopHeadersOfTheFunction(t *testing.T) {
	t.Parallel()
	host := startRawUpstream(t, func(c rawCall) {
		c.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + hopByHopLines + "\r\nok")
	})
	a := get(t, startGateway(t, routeTo(host, testTimeout)).url+"/fn/demo/hello")
	if a.status != http.StatusOK || a.body != "ok" {
		t.Errorf("got %d %q", a.status, a.body)
	}
	checkHopByHop(t, "the client", a.header)
}

func TestStripHopByHop(t *testing.T) {
	t.Parallel()
	res, err := http.ReadResponse(bufio.NewReader(strings.NewReader("HTTP/1.1 101 X\r\n"+hopByHopLines+"\r\n")), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	stripHopByHop(res.Header)
	checkHopByHop(t, "the client", res.Header)
}

func TestForwardedHeaders(t *testing.T) {
	t.Parallel()
	loopback, err := ParseTrustedProxies("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		trusted TrustedProxies
		want    string
	}{
		"nobody is trusted": {want: "127.0.0.1 me.example http /fn/demo/hello "},
		"a trusted proxy":   {trusted: loopback, want: "1.1.1.1, 127.0.0.1 shop.example https /api/fn/demo/hello 443"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan seenRequest, 1)
			g := startFunction(t, recordInto(seen), func(c *Config) { c.TrustedProxies = tc.trusted })
			req := newRequest(t, http.MethodGet, g.url+"/fn/demo/hello", nil)
			req.Host = "me.example"
			req.Header = http.Header{
				"X-Forwarded-For": {"1.1.1.1"}, "X-Forwarded-Host": {"shop.example"}, "X-Forwarded-Proto": {"https"},
				"X-Forwarded-Prefix": {"/api"}, "X-Forwarded-Port": {"443"},
				// Naming the headers hop-by-hop must not take the gateway's own away.
				"Connection": {"X-Forwarded-Proto-Not, X-Forwarded-Not"},
			}
			do(t, newClient(t), req)
			h := receive(t, seen).header
			got := strings.Join([]string{
				h.Get("X-Forwarded-For"), h.Get("X-Forwarded-Host"), h.Get("X-Forwarded-Proto"),
				h.Get("X-Forwarded-Prefix"), h.Get("X-Forwarded-Port"),
			}, " ")
			if got != tc.want {
				t.Errorf("the function got %q, want %q", got, tc.want)
			}
		})
	}
}
