// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// received is what a function got.
type received struct {
	Method, Path, Body string
	Headers            map[string]string
}

func TestInvoke(t *testing.T) {
	t.Parallel()
	var got atomic.Pointer[received]
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		headers := map[string]string{}
		for _, name := range []string{
			"Content-Type", "X-Sless-Trigger", "X-Request-Id", "Ce-Id", "Ce-Source", "Ce-Specversion", "Ce-Type",
		} {
			headers[name] = r.Header.Get(name)
		}
		if _, err := time.Parse(time.RFC3339, r.Header.Get("Ce-Time")); err != nil {
			t.Errorf("Ce-Time: %v", err)
		}
		got.Store(&received{Method: r.Method, Path: r.URL.Path, Body: string(body), Headers: headers})
	}))
	t.Cleanup(server.Close)
	event := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(event, []byte(`{"a":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	res := run(t, map[string]string{"SLESS_RUN": "cron-nightly-29000000"}, "invoke", "--url="+server.URL+"/fn/shop/cart",
		"--trigger=nightly", "--source=/namespaces/shop/triggers/nightly", "--event="+event)
	if res.code != 0 || !strings.HasPrefix(res.termination, "Called: the answer was 200 after ") {
		t.Errorf("got %+v", res)
	}
	want := &received{Method: "POST", Path: "/fn/shop/cart", Body: `{"a":1}`, Headers: map[string]string{
		"Content-Type": "application/json", "X-Sless-Trigger": "nightly",
		"X-Request-Id": "cron-nightly-29000000", "Ce-Id": "cron-nightly-29000000",
		"Ce-Source": "/namespaces/shop/triggers/nightly", "Ce-Specversion": "1.0", "Ce-Type": "io.sless.trigger.cron",
	}}
	if diff := cmp.Diff(want, got.Load()); diff != "" {
		t.Errorf("the function got (-want +got):\n%s", diff)
	}

	res = run(t, nil, "invoke", "--url="+server.URL, "--trigger=nightly", "--method=GET")
	plain := got.Load()
	if res.code != 0 || plain.Method != "GET" || plain.Body != "" || plain.Headers["Content-Type"] != "" {
		t.Errorf("without an event: %+v, %+v", res, plain)
	}
	if plain.Headers["Ce-Id"] == "" || plain.Headers["Ce-Id"] != plain.Headers["X-Request-Id"] {
		t.Errorf("without a run, the ids are %v", plain.Headers)
	}
}

func TestInvokeOutcome(t *testing.T) {
	t.Parallel()
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if code/100 == 3 {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	// stream answers in so many pieces of 64 KiB, which no buffer on the way can hold, and then does the last thing.
	stream := func(code, pieces int, last http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			for range pieces {
				_, _ = io.WriteString(w, strings.Repeat("x", 64<<10))
				_ = http.NewResponseController(w).Flush()
			}
			last(w, r)
		}
	}
	end := func(http.ResponseWriter, *http.Request) {}
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	tests := map[string]struct {
		handler http.HandlerFunc
		args    []string
		// want begins the termination message. Empty is success.
		want string
		// wantCut is true when the answer does not get to its end.
		wantCut bool
	}{
		"no content":              {handler: status(204, "")},
		"a redirect is an answer": {handler: status(302, "")},
		"not found":               {handler: status(404, `{"error":"function x/y does not exist"}`), want: `CallFailed: the answer was 404: {"error":"function x/y does not exist"}`},
		"an error":                {handler: status(500, "line 1\nline \x1b[31m2"), want: "CallFailed: the answer was 500: line 1 line  [31m2"},
		"an error without a word": {handler: status(503, ""), want: "CallFailed: the answer was 503: it had no body"},
		"a very long error":       {handler: stream(500, 1000, end), want: "CallFailed: the answer was 500: " + strings.Repeat("x", 512) + "…"},
		"a very long answer":      {handler: stream(200, 1000, end)},
		"no answer":               {handler: hang, args: []string{"--timeout=50ms"}, want: "CallTimedOut: no answer came within 50ms", wantCut: true},
		"a broken connection":     {handler: abort, want: "CallBroken: EOF", wantCut: true},
		"an answer that breaks off": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "half")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			},
			want: "CallBroken: reading the answer: unexpected EOF", wantCut: true,
		},
		"a long answer that breaks off": {handler: stream(200, 2, abort), want: "CallBroken: reading the answer: unexpected EOF", wantCut: true},
		"a long answer without an end": {handler: stream(200, 2, hang), args: []string{"--timeout=1s"},
			want: "CallTimedOut: no answer came within 1s", wantCut: true},
		"a long error that breaks off": {handler: stream(500, 2, abort), want: "CallFailed: the answer was 500: xxx", wantCut: true},
		"a method that is none":        {handler: status(200, ""), args: []string{"--method=A B"}, want: "InvokeFailed: "},
		"an event that is gone":        {handler: status(200, ""), args: []string{"--event=/nowhere/event.json"}, want: "InvokeFailed: opening the event"},
		"a flag that is none":          {handler: status(200, ""), args: []string{"--what"}, want: "InvokeFailed: unknown flag"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls, whole atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				noted := &notedWriter{ResponseWriter: w}
				tc.handler(noted, r)
				if noted.err == nil && r.Context().Err() == nil {
					whole.Add(1)
				}
			}))
			res := run(t, nil, append([]string{"invoke", "--url=" + server.URL, "--trigger=t"}, tc.args...)...)
			server.Close() // waits for the handler
			if cut := whole.Load() < calls.Load(); cut != tc.wantCut {
				t.Errorf("the client left before the end of the answer: %v, want %v", cut, tc.wantCut)
			}
			if (res.code == 0) != (tc.want == "") || !strings.HasPrefix(res.termination, tc.want) {
				t.Errorf("got %+v, want %q", res, tc.want)
			}
			if calls.Load() > 1 {
				t.Errorf("the function was called %d times", calls.Load())
			}
		})
	}
}

// notedWriter remembers that something could not be written, as when the client has left.
type notedWriter struct {
	http.ResponseWriter

	err error
}

func (w *notedWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

func (w *notedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestInvokeRetriesConnecting has a gateway that comes up after the first attempt.
func TestInvokeRetriesConnecting(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	res := run(t, nil, "invoke", "--url=http://"+address, "--trigger=t")
	if res.code != 1 || !strings.HasPrefix(res.termination, "GatewayUnavailable: dial tcp "+address) {
		t.Errorf("without a gateway: %+v", res)
	}
	if attempts := strings.Count(res.stderr, "Attempt failed"); attempts != quick.Steps {
		t.Errorf("%d attempts, want %d", attempts, quick.Steps)
	}
	res = run(t, nil, "invoke", "--url=http://gateway.invalid", "--trigger=t")
	if res.code != 1 || !strings.HasPrefix(res.termination, "GatewayUnavailable: ") {
		t.Errorf("with a name that does not resolve: %+v", res)
	}
}

func TestInvokeStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "termination-log")
	program := &Program{Stderr: io.Discard, Backoff: quick}
	code := program.Run(ctx, []string{"--termination-log=" + file, "invoke", "--url=" + server.URL, "--trigger=t"})
	message, err := os.ReadFile(file)
	want := fmt.Sprintf("%s: the run was stopped before the answer came", ReasonCallBroken)
	if code != 1 || err != nil || string(message) != want {
		t.Errorf("got %d, %q, %v, want %q", code, message, err, want)
	}
}
