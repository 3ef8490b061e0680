// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// alive tells whether a process exists, also as a zombie.
func alive(pid string) bool {
	_, err := os.Stat(filepath.Join("/proc", strings.TrimSpace(pid)))
	return err == nil
}

func (p *program) metrics() string {
	response, err := http.Get(p.adminURL + "/metrics")
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return string(text)
}

func TestDrain(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve("--drain-timeout", "20s")
		worker := p.get("/pid").body
		inFlight := p.background("/wait")
		p.called(1)
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		p.eventually("unreadiness", func() bool { return p.ready() == http.StatusServiceUnavailable })
		p.open("open")
		if got := <-inFlight; got.code != http.StatusOK {
			t.Errorf("call in flight: %d %q, %v", got.code, got.body, got.err)
		}
		if code, message := p.wait(); code != 0 || message != "" {
			t.Errorf("exit %d, %q, want 0 and no message", code, message)
		}
		if alive(worker) {
			t.Error("the worker outlived the watchdog")
		}
	})
}

func TestDrainDelayStillTakesCalls(t *testing.T) {
	t.Parallel()
	p := newProgram(t, python, nil).serve("--drain-delay", "3s")
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.eventually("unreadiness", func() bool { return p.ready() == http.StatusServiceUnavailable })
	if got := p.get("/zero"); got.code != http.StatusOK {
		t.Errorf("late call: %d %q, %v", got.code, got.body, got.err)
	}
	if code, _ := p.wait(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}

func TestDrainTimeoutBreaksOffCalls(t *testing.T) {
	t.Parallel()
	p := newProgram(t, python, nil).serve("--drain-timeout", "500ms")
	worker := p.get("/pid").body
	inFlight := p.background("/wait")
	p.called(1)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if got := <-inFlight; got.err == nil {
		t.Errorf("call in flight: %d, want a broken connection", got.code)
	}
	if code, _ := p.wait(); code != 0 || alive(worker) {
		t.Errorf("exit %d, worker alive %t, want 0 and no worker", code, alive(worker))
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		text := errorText(t, p.get("/exit"), http.StatusBadGateway, "")
		if want := "the function's process ended with exit status 3"; text != want {
			t.Errorf("error %q, want %q", text, want)
		}
		if got := p.get("/zero"); got.code != http.StatusOK {
			t.Errorf("next call: %d %q", got.code, got.body)
		}
		if p.called(1); p.ready() != http.StatusOK {
			t.Error("not ready after the restart")
		}
		p.eventually("count of the restart", func() bool {
			return strings.Contains(p.metrics(), `worker_restarts_total{cause="crash"} 1`)
		})
	})
}

func TestUncaughtErrorIsNamed(t *testing.T) {
	t.Parallel()
	p := newProgram(t, node, nil).serve()
	text := errorText(t, p.get("/throw-later"), http.StatusBadGateway, "")
	if !strings.Contains(text, "handler.js line ") || !strings.Contains(text, "TypeError: nobody catches this") {
		t.Errorf("error %q, want cause and line", text)
	}
}

func TestRepeatedCrashesEndTheContainer(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		for range 5 {
			p.get("/exit")
		}
		code, message := p.wait()
		want := "HandlerCrashed: the function's process ended with exit status 3; 5 times in a row"
		if code != 1 || message != want {
			t.Errorf("exit %d, %q, want 1, %q", code, message, want)
		}
	})
}

func TestOrphansAreCollected(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		for range 3 {
			orphan := p.get("/orphan").body
			if strings.TrimSpace(orphan) == "" {
				t.Fatal("no orphan was made")
			}
			p.eventually("collection of the orphan", func() bool { return !alive(orphan) })
		}
		if got := p.get("/zero"); got.code != http.StatusOK {
			t.Errorf("next call: %d %q", got.code, got.body)
		}
	})
}

func TestMetricsAndHealth(t *testing.T) {
	t.Parallel()
	p := newProgram(t, python, nil).serve()
	p.get("/zero")
	p.get("/raise")
	for _, want := range []string{
		`sless_function_requests_total{code="200"} 1`, `sless_function_requests_total{code="500"} 1`,
		`sless_function_request_duration_seconds_count 2`, `sless_function_in_flight_requests 0`,
		`sless_function_load_seconds 0.`, `process_resident_memory_bytes`,
	} {
		p.eventually(want, func() bool { return strings.Contains(p.metrics(), want) })
	}
	response, err := http.Get(p.adminURL + "/healthz")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("healthz: %v, %v", response, err)
	}
}
