// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shell is a worker that says what a script makes it say on its status pipe, and serves nothing.
func shell(t *testing.T, script string) Config {
	t.Helper()
	return Config{
		Command: []string{"/bin/sh", "-c", script}, AppDir: t.TempDir(), SocketDir: t.TempDir(), Entrypoint: "a.b",
		LoadTimeout: 20 * time.Second, Stdout: os.Stderr, Stderr: os.Stderr,
	}
}

func TestStart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ script, want string }{
		"loaded":       {`echo '{"ok":true}' >&3; exec sleep 60`, ""},
		"load failure": {`echo '{"file":"a.x","line":3,"error":"E: x"}' >&3; exit 1`, "a.x line 3: E: x"},
		"no line":      {`echo '{"file":"a.x","error":"E: x"}' >&3; exit 1`, "a.x: E: x"},
		"no file":      {`echo '{"error":"E: x"}' >&3; exit 1`, "E: x"},
		"failure, but the worker lives on": {
			`echo '{"file":"a.x","error":"E: x"}' >&3; exec sleep 60`, "a.x: E: x"},
		"exit": {`exit 7`,
			"while loading the handler, the function's process ended with exit status 7"},
		"killed":                      {`kill -9 $$`, "ended with signal: killed, as the system does when memory runs out"},
		"a grandchild holds the pipe": {`sleep 60 & exit 7`, "exit status 7"},
		"no json":                     {`echo hello >&3; exec sleep 60`, "the worker's status is not JSON"},
		"endless line":                {`head -c 100000 /dev/zero >&3; exit 5`, "exit status 5"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			process, err := Start(context.Background(), shell(t, tc.script))
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				process.Kill()
				<-process.Done()
				return
			}
			var load *LoadError
			if !errors.As(err, &load) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Start(ctx, shell(t, "exec sleep 60")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestSupervisorGivesUpAfterCrashesInARow(t *testing.T) {
	t.Parallel()
	launches := 0
	supervisor := NewSupervisor(func(ctx context.Context) (*Process, error) {
		launches++
		return Start(ctx, shell(t, `echo '{"ok":true}' >&3; exit 3`))
	}, quiet())
	err := supervisor.Run(context.Background())
	var crash *CrashError
	if !errors.As(err, &crash) || launches != maxCrashes || !strings.Contains(err.Error(), "exit status 3; 5 times") {
		t.Errorf("error %v after %d launches, want a crash after %d", err, launches, maxCrashes)
	}
}

func TestSupervisorForgivesRareCrashes(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	ctx, cancel := context.WithCancel(context.Background())
	launches := 0
	supervisor := NewSupervisor(func(ctx context.Context) (*Process, error) {
		if launches++; launches > 2*maxCrashes {
			cancel()
		}
		return Start(ctx, shell(t, `echo '{"ok":true}' >&3; exit 3`))
	}, quiet())
	supervisor.Now = func() time.Time { // only called by Run
		now = now.Add(2 * crashWindow)
		return now
	}
	if err := supervisor.Run(ctx); err != nil {
		t.Errorf("error %v, want none: the crashes were far apart", err)
	}
}

func TestSupervisorEndsWhenTheFirstLoadFails(t *testing.T) {
	t.Parallel()
	launches := 0
	supervisor := NewSupervisor(func(ctx context.Context) (*Process, error) {
		launches++
		return Start(ctx, shell(t, `echo '{"file":"a.x","error":"E"}' >&3`))
	}, quiet())
	var load *LoadError
	if err := supervisor.Run(context.Background()); !errors.As(err, &load) || launches != 1 {
		t.Errorf("error %v after %d launches, want a load error after the first", err, launches)
	}
}

func TestRetiredWorkerLivesUntilItsLastCall(t *testing.T) {
	t.Parallel()
	supervisor := NewSupervisor(func(ctx context.Context) (*Process, error) {
		return Start(ctx, shell(t, `echo '{"ok":true}' >&3; exec sleep 60`))
	}, quiet())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- supervisor.Run(ctx) }()
	acquire := func() *Lease {
		lease, err := supervisor.Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	stuck, other := acquire(), acquire()
	if stuck != other {
		t.Fatal("two workers, want one")
	}
	supervisor.Retire(stuck)
	supervisor.Retire(stuck) // a second timeout changes nothing
	supervisor.Release(stuck)
	next := acquire()
	if next == other {
		t.Fatal("the retired worker got a new call")
	}
	select {
	case <-other.Done():
		t.Error("the retired worker ended before its last call")
	default:
	}
	supervisor.Release(other)
	<-other.Done()
	supervisor.Release(next)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-next.Done()
}

func TestAcquireGivesUp(t *testing.T) {
	t.Parallel()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if _, err := NewSupervisor(nil, quiet()).Acquire(ctx); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}

func TestAnswerHead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		head        string
		wantHeaders http.Header
		wantErr     string
	}{
		"type": {`{"status":200,"headers":null,"type":"a/b"}`, http.Header{"Content-Type": {"a/b"}}, ""},
		"own type": {`{"status":200,"headers":{"content-TYPE":"c/d"},"type":"a/b"}`,
			http.Header{"Content-Type": {"c/d"}}, ""},
		"kinds": {`{"status":200,"headers":{"x-a":1,"x-b":true,"x-c":["a",2.5]}}`,
			http.Header{"X-A": {"1"}, "X-B": {"true"}, "X-C": {"a", "2.5"}}, ""},
		"hop-by-hop": {`{"status":200,"headers":{"connection":"x","te":"x","content-length":1,"upgrade":"x"}}`,
			http.Header{}, ""},
		"empty body":     {`{"status":200,"type":"application/octet-stream","size":0}`, http.Header{}, ""},
		"no status":      {`{}`, nil, "statusCode"},
		"fraction":       {`{"status":200.5}`, nil, "statusCode 200.5"},
		"true":           {`{"status":true}`, nil, "statusCode true"},
		"informational":  {`{"status":101}`, nil, "statusCode 101"},
		"too high":       {`{"status":600}`, nil, "statusCode 600"},
		"list":           {`{"status":200,"headers":["a"]}`, nil, "not an object"},
		"nested":         {`{"status":200,"headers":{"a":{"b":1}}}`, nil, "value for header a"},
		"null value":     {`{"status":200,"headers":{"a":null}}`, nil, "value for header a"},
		"line feed":      {`{"status":200,"headers":{"a":"b\nc: d"}}`, nil, "value for header a"},
		"nul":            {`{"status":200,"headers":{"a":["ok","b\u0000"]}}`, nil, "value for header a"},
		"space in name":  {`{"status":200,"headers":{"a ":"b"}}`, nil, `header name "a "`},
		"colon in name":  {`{"status":200,"headers":{"a:b":"c"}}`, nil, `header name "a:b"`},
		"empty name":     {`{"status":200,"headers":{"":"c"}}`, nil, `header name ""`},
		"no header line": {`{"status":200,"headers":{"x-a":[]}}`, http.Header{"X-A": nil}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var head answerHead
			if err := json.Unmarshal([]byte(tc.head), &head); err != nil {
				t.Fatal(err)
			}
			_, headers, err := head.check()
			if tc.wantErr != "" {
				var handlerErr *HandlerError
				if !errors.As(err, &handlerErr) || handlerErr.Status != 500 || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.wantHeaders, headers); err != nil || diff != "" {
				t.Errorf("error %v, headers (-want +got):\n%s", err, diff)
			}
		})
	}
}

// answerFrom returns an answer that reads what a worker would have sent.
func answerFrom(sent []byte) *Answer {
	near, far := net.Pipe()
	_ = far.Close()
	_ = near.Close()
	return &Answer{
		conn: &conn{Conn: near, r: bufio.NewReader(bytes.NewReader(sent))}, pool: &connPool{}, Size: -1,
		stop: func() bool { return true },
	}
}

func frames(parts ...string) []byte {
	var b bytes.Buffer
	for _, part := range parts {
		b.Write(appendFrameHeader(nil, part[0], len(part)-1))
		b.WriteString(part[1:])
	}
	return b.Bytes()
}

func TestAnswerBody(t *testing.T) {
	t.Parallel()
	const head = `H{"status":200}`
	tests := map[string]struct {
		sent     []byte
		wantBody string
		wantErr  string
	}{
		"whole":           {frames(head, "Dab", "Dc", "D", "Dd", "E"), "abcd", ""},
		"empty":           {frames(head, "E"), "", ""},
		"cut in a header": {frames(head, "Dab", "Dc")[:28], "ab", "unexpected EOF"},
		"cut in a chunk":  {frames(head, "Dab")[:25], "a", "unexpected EOF"},
		"no end":          {frames(head, "Dab"), "ab", "unexpected EOF"},
		"late failure":    {frames(head, "Dab", `F{"status":500,"error":"E: x"}`), "ab", "E: x"},
		"odd frame":       {frames(head, "Q"), "", `frame 'Q' inside a body`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := answerFrom(tc.sent)
			defer answer.Close()
			if err := answer.readHead(); err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer)
			if string(body) != tc.wantBody || (err == nil) != (tc.wantErr == "") {
				t.Errorf("body %q, %v, want %q, %q", body, err, tc.wantBody, tc.wantErr)
			}
			if err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestHeadsAreBounded(t *testing.T) {
	t.Parallel()
	answer := answerFrom(appendFrameHeader(nil, kindHead, 1<<31))
	defer answer.Close()
	if err := answer.readHead(); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("error %v, want a limit", err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(frames(`H{"status":200,"headers":{"a":["b",1]}}`, "Dab", "E"))
	f.Add(frames(`F{"status":400,"error":"x"}`))
	f.Fuzz(func(t *testing.T, sent []byte) {
		answer := answerFrom(sent)
		defer answer.Close()
		if answer.readHead() != nil {
			return
		}
		if answer.Status < 200 || answer.Status > 599 {
			t.Errorf("status %d", answer.Status)
		}
		if n, _ := io.Copy(io.Discard, answer); n > int64(len(sent)) {
			t.Errorf("%d bytes from %d", n, len(sent))
		}
	})
}
