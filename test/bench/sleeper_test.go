// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestTiming(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		values []string
		want   time.Duration
		wantOK bool
	}{
		"one header":         {values: []string{"handler;dur=1.5, wait;dur=730.2"}, want: 730200 * time.Microsecond, wantOK: true},
		"two headers":        {values: []string{"handler;dur=1.5", "wait;dur=3"}, want: 3 * time.Millisecond, wantOK: true},
		"with a description": {values: []string{`wait; desc="start"; dur=2`}, want: 2 * time.Millisecond, wantOK: true},
		"another's":          {values: []string{"handler;dur=1.5", "waiting;dur=3"}},
		"no duration":        {values: []string{"wait"}},
		"no number":          {values: []string{"wait;dur=long"}},
		"none":               {},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := timing(http.Header{timingHeader: tc.values}, waitTiming)
			if got != tc.want || ok != tc.wantOK {
				t.Errorf("got %s, %v, want %s, %v", got, ok, tc.want, tc.wantOK)
			}
		})
	}
}

func TestWokenCheck(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		said woken
		want string
	}{
		"cold":              {said: woken{cold: true, wait: 900 * time.Millisecond}},
		"warm":              {said: woken{wait: 900 * time.Millisecond}, want: "does not say"},
		"no wait":           {said: woken{cold: true}, want: "waited for 0s"},
		"longer than it is": {said: woken{cold: true, wait: 2 * time.Second}, want: "waited for 2s"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := tc.said.check(time.Second); err != nil {
				got = err.Error()
			}
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// sleeperThatSays returns a function that gives the same answer to every call.
func sleeperThatSays(t *testing.T, status int, body string, header http.Header) *sleeper {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return &sleeper{bench: &bench{now: time.Now}, name: "cart", number: 7, url: server.URL}
}

func TestSleeperCall(t *testing.T) {
	t.Parallel()
	cold := http.Header{coldStartHeader: {"true"}, timingHeader: {"wait;dur=0.5"}}
	tests := map[string]struct {
		status  int
		body    string
		header  http.Header
		want    woken
		wantErr string
	}{
		"cold":           {status: 200, body: `{"number":7}`, header: cold, want: woken{cold: true, wait: 500 * time.Microsecond}},
		"warm":           {status: 200, body: `{"number":7}`, header: http.Header{coldStartHeader: {"false"}}},
		"another number": {status: 200, body: `{"number":8}`, wantErr: "the answer is 8, but should be 7"},
		"refused":        {status: 504, body: "no replica", wantErr: `504 Gateway Timeout: "no replica"`},
		"no JSON":        {status: 200, body: "hello", wantErr: "no JSON"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := sleeperThatSays(t, tc.status, tc.body, tc.header).call(context.Background(), http.DefaultClient)
			if got != tc.want || (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got %+v, %v, want %+v, %q", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestBurst(t *testing.T) {
	t.Parallel()
	good := sleeperThatSays(t, http.StatusOK, `{"number":7}`, http.Header{coldStartHeader: {"true"}, timingHeader: {"wait;dur=0.5"}})
	bad := sleeperThatSays(t, http.StatusTooManyRequests, "too many", nil)
	r := &burst{calls: sample{name: "cart"}}
	r.add(good.burstOnce(context.Background(), 20))
	r.add(bad.burstOnce(context.Background(), 3))
	if len(r.calls.values) != 20 || r.calls.failures != 3 || r.cold != 20 || len(r.slowest) != 2 {
		t.Errorf("%d good and %d failed calls, %d cold, %d rounds; want 20, 3, 20, 2",
			len(r.calls.values), r.calls.failures, r.cold, len(r.slowest))
	}
	if r.firstFailure == nil || !strings.Contains(r.firstFailure.Error(), "429") {
		t.Errorf("the first failure is %v", r.firstFailure)
	}
	if row := r.row(); row[0] != "cart" || row[1] != "23" || row[5] != "3" || row[6] != "20" {
		t.Errorf("row %q", row)
	}
}
