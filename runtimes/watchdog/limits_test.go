// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// aboveAStart is a timeout within which a call can wait for the start of a worker on a busy machine: the interpreter's and more.
const aboveAStart = "10s"

func TestTimeout(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve("--timeout", aboveAStart)
		before := p.get("/pid").body
		text := errorText(t, p.get("/hang"), http.StatusGatewayTimeout, "")
		if want := "the function did not answer within " + aboveAStart; text != want {
			t.Errorf("error %q, want %q", text, want)
		}
		after := p.get("/pid")
		if after.code != http.StatusOK || after.body == before {
			t.Errorf("next call: %d by process %q, want 200 by another than %q", after.code, after.body, before)
		}
		p.called(1)
		p.eventually("end of the stuck process", func() bool { return !alive(before) })
	})
}

func TestTimeoutOfASpinningHandler(t *testing.T) {
	t.Parallel()
	p := newProgram(t, node, nil).serve("--timeout", aboveAStart)
	errorText(t, p.get("/spin"), http.StatusGatewayTimeout, "")
	if got := p.get("/zero"); got.code != http.StatusOK {
		t.Errorf("next call: %d %s", got.code, got.body)
	}
}

// TestTimeoutLeavesOtherCallsAlone has a call in flight while another one's timeout replaces the process.
func TestTimeoutLeavesOtherCallsAlone(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve("--timeout", "20s")
		before := p.get("/pid").body
		stuck := p.background("/hang")
		p.called(1)
		time.Sleep(10 * time.Second) // so that the other call's own deadline is later by more than a worker's start
		other := p.background("/wait")
		p.called(2)
		errorText(t, <-stuck, http.StatusGatewayTimeout, "")
		if got := p.get("/pid"); got.code != http.StatusOK || got.body == before {
			t.Errorf("new call: %d by %q, want 200 by another than %q", got.code, got.body, before)
		}
		p.open("open")
		if got := <-other; got.code != http.StatusOK || got.body != before {
			t.Errorf("other call: %d by %q, want 200 by %q", got.code, got.body, before)
		}
		p.eventually("end of the retired process", func() bool { return !alive(before) })
	})
}

func TestTimeoutOfAStreamBreaksIt(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve("--timeout", "1500ms")
		before := p.get("/pid").body
		got := p.get("/endless")
		if got.code != http.StatusOK || got.err == nil || !strings.HasPrefix(got.body, "tick\n") {
			t.Errorf("reply %d %.20q, %v, want a broken stream", got.code, got.body, got.err)
		}
		p.eventually("end of the iterator", func() bool { return p.noted("closed") != "" })
		if after := p.get("/pid").body; after != before {
			t.Errorf("the process was replaced, but its stream ended when it was asked to")
		}
	})
}

func TestSlowUploadIsNotTheHandlersFault(t *testing.T) {
	t.Parallel()
	p := newProgram(t, python, nil).serve("--timeout", "1500ms")
	before := p.get("/pid").body
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "POST /hang HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != http.StatusRequestTimeout {
		t.Fatalf("response %v, %v, want 408", response, err)
	}
	if after := p.get("/pid").body; after != before || p.noted("called") != "" {
		t.Errorf("process %q after %q, handler called %q, want neither replaced nor called", after, before, p.noted("called"))
	}
}

func TestConcurrencyLimit(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve("--concurrency", "2")
		first, second := p.background("/wait"), p.background("/wait")
		p.called(2)
		third := p.get("/zero")
		if third.header.Get("X-Sless-Busy") == "" {
			t.Error("the gateway cannot tell that the call did not reach the handler")
		}
		if text := errorText(t, third, http.StatusTooManyRequests, ""); !strings.Contains(text, "2 calls at once") {
			t.Errorf("error %q", text)
		}
		if third.header.Get("Retry-After") != "1" {
			t.Errorf("headers %v, want Retry-After", third.header)
		}
		p.open("open")
		for _, got := range []reply{<-first, <-second, p.get("/zero")} {
			if got.code != http.StatusOK {
				t.Errorf("reply %d %q", got.code, got.body)
			}
		}
	})
}

func TestParallelCalls(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve("--concurrency", "50")
		var calls []<-chan reply
		for range 25 {
			calls = append(calls, p.background("/wait"), p.background("/wait-async"))
		}
		p.called(50)
		p.open("open")
		for _, call := range calls {
			if got := <-call; got.code != http.StatusOK {
				t.Errorf("reply %d %q, %v", got.code, got.body, got.err)
			}
		}
	})
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve("--max-body-bytes", "100000")
		fits, tooLarge := bytes.Repeat([]byte("x"), 100_000), bytes.Repeat([]byte("x"), 100_001)
		chunked := func(path string, body []byte) reply { // a reader of unknown length
			return p.do(context.Background(), "POST", path, nil, io.MultiReader(bytes.NewReader(body)))
		}
		for name, got := range map[string]reply{"sized": p.post("/echo", "", fits), "chunked": chunked("/echo", fits)} {
			if got.code != http.StatusOK || len(got.body) != len(fits) {
				t.Errorf("%s body at the limit: %d with %d bytes", name, got.code, len(got.body))
			}
		}
		for name, got := range map[string]reply{
			"sized": p.post("/exit", "", tooLarge), "chunked": chunked("/exit", tooLarge),
		} {
			text := errorText(t, got, http.StatusRequestEntityTooLarge, "")
			if !strings.Contains(text, "100000 bytes") {
				t.Errorf("%s body over the limit: error %q does not name the limit", name, text)
			}
		}
		if p.noted("called") != "" {
			t.Error("the handler was called with a body over the limit")
		}
	})
}

func TestBrokenUploadDoesNotReachTheHandler(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "POST /exit HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
		_ = conn.Close()
		p.eventually("end of the call", func() bool { return strings.Contains(p.metrics(), `requests_total{code="499"} 1`) })
		if got := p.get("/zero"); got.code != http.StatusOK || p.noted("called") != "" {
			t.Errorf("next call %d, handler called %q, want 200 and no call", got.code, p.noted("called"))
		}
	})
}

func TestCallersLeavingCancelsTheHandler(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		ctx, leave := context.WithCancel(context.Background())
		done := make(chan reply, 1)
		go func() { done <- p.do(ctx, "GET", "/wait-async", nil, nil) }()
		p.called(1)
		leave()
		<-done
		p.eventually("cancellation", func() bool { return p.noted("cancelled") != "" })
	})
}

func TestCallersLeavingAStreamClosesTheIterator(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		response, err := http.Get(p.url + "/endless")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		p.eventually("end of the iterator", func() bool { return p.noted("closed") != "" })
	})
}

// TestCallersLeavingKeepsTheSlot shows that callers who come and go cannot pile up handlers that cannot be cancelled.
func TestCallersLeavingKeepsTheSlot(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve("--concurrency", "1")
		ctx, leave := context.WithCancel(context.Background())
		done := make(chan reply, 1)
		go func() { done <- p.do(ctx, "GET", "/wait", nil, nil) }()
		p.called(1)
		leave()
		<-done
		errorText(t, p.get("/zero"), http.StatusTooManyRequests, "")
		p.open("open")
		p.eventually("free slot", func() bool { return p.get("/zero").code == http.StatusOK })
	})
}

// TestMemoryIsBounded passes the largest body through and back.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	p := newProgram(t, python, nil).serve()
	body := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
	if got := p.post("/echo", "", body); got.code != http.StatusOK || got.body != string(body) {
		t.Fatalf("reply %d with %d bytes, %v", got.code, len(got.body), got.err)
	}
	const limit = 64 << 10 // KiB; the body alone has half of it
	var peak int
	_, after, _ := strings.Cut(mustRead(t, fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)), "VmHWM:")
	if _, err := fmt.Sscan(after, &peak); err != nil || peak > limit {
		t.Errorf("the watchdog used %d KiB, %v, want at most %d", peak, err, limit)
	}
	t.Logf("peak %d KiB", peak)
}
