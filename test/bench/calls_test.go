// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// answering serves answers one after the other, and then the last one again and again.
func answering(t *testing.T, answers ...string) string {
	t.Helper()
	calls := atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer := answers[min(int(calls.Add(1)), len(answers))-1]
		if answer == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const (
	oldAnswer = `{"number":1}`
	newAnswer = `{"number":2}`
)

func TestPoll(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answers        []string
		wantWrong      int
		wantOldAfter   bool
		wantNeverOld   bool
		wantFirstWrong string
	}{
		"old, then new":      {answers: []string{oldAnswer, oldAnswer, newAnswer}},
		"new at once":        {answers: []string{newAnswer}, wantNeverOld: true},
		"old once more":      {answers: []string{oldAnswer, newAnswer, oldAnswer, newAnswer}, wantOldAfter: true},
		"a failed call":      {answers: []string{oldAnswer, "", newAnswer}, wantWrong: 1},
		"another number":     {answers: []string{oldAnswer, `{"number":9}`, newAnswer}, wantWrong: 1},
		"no number, no JSON": {answers: []string{oldAnswer, `{}`, `x`, newAnswer}, wantWrong: 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := poll(t.Context(), answering(t, tc.answers...), 1, 2, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			if p.wrong != tc.wantWrong || (p.firstWrong != nil) != (tc.wantWrong > 0) {
				t.Errorf("%d wrong answers, the first %v; want %d", p.wrong, p.firstWrong, tc.wantWrong)
			}
			if p.firstNew.IsZero() || p.lastOld.IsZero() != tc.wantNeverOld {
				t.Errorf("first new %v, last old %v", p.firstNew, p.lastOld)
			}
			if got := p.lastOld.After(p.firstNew); got != tc.wantOldAfter {
				t.Errorf("old after new: %v, want %v", got, tc.wantOldAfter)
			}
			if p.calls < len(tc.answers) {
				t.Errorf("%d calls, want at least %d", p.calls, len(tc.answers))
			}
		})
	}
}

func TestPollGivesUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	served := atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1) == 3 {
			cancel()
		}
		_, _ = w.Write([]byte(oldAnswer))
	}))
	defer server.Close()
	if _, err := poll(ctx, server.URL, 1, 2, time.Now); !errors.Is(err, errNeverNew) {
		t.Errorf("poll: %v, want %v", err, errNeverNew)
	}
}

func TestBuiltinGenerator(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer     string
		wantFailed bool
	}{
		"good answers": {answer: newAnswer},
		"failures":     {answer: "", wantFailed: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := builtinGenerator{now: time.Now}.run(t.Context(), answering(t, tc.answer), 4, 50*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if l.perSecond <= 0 || l.p50 <= 0 || l.p99 < l.p50 {
				t.Errorf("load = %+v", l)
			}
			if (l.failed > 0) != tc.wantFailed {
				t.Errorf("%d failed calls, want some: %v", l.failed, tc.wantFailed)
			}
		})
	}
}

func TestBuiltinGeneratorStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (builtinGenerator{now: time.Now}).run(ctx, answering(t, newAnswer), 2, time.Hour); err == nil {
		t.Error("a load without time gave a result")
	}
}

func TestOnlyThisMachine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		host          string
		wantError     bool
		wantElsewhere bool
	}{
		"loopback":       {host: "127.0.0.1"},
		"somewhere else": {host: "198.51.100.7", wantError: true, wantElsewhere: true},
		"no address":     {host: "", wantError: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := onlyThisMachine(t.Context(), tc.host)
			if (err != nil) != tc.wantError || errors.Is(err, errElsewhere) != tc.wantElsewhere {
				t.Errorf("onlyThisMachine(%q) = %v, want an error: %v", tc.host, err, tc.wantError)
			}
		})
	}
}

func TestWarmRows(t *testing.T) {
	t.Parallel()
	targets := []target{{name: "pod"}, {name: "gateway"}, {name: "never measured"}}
	loads := [][]load{
		{{perSecond: 100, p50: time.Millisecond}, {perSecond: 200, p50: time.Millisecond}, {perSecond: 150}},
		{{perSecond: 75, p50: 2 * time.Millisecond, failed: 1}},
		nil,
	}
	got := fmt.Sprint(warmRows("py", targets, 32, loads))
	want := "[[py, pod 32 150 100–200 1.00 ms 0.00 ms 0 100 %] [py, gateway 32 75 75–75 2.00 ms 0.00 ms 1 50 %]]"
	if got != want {
		t.Errorf("warmRows = %s, want %s", got, want)
	}
}
