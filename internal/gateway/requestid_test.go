// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"
	"strings"
	"testing"
)

func TestRequestID(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given    []string
		wantKept bool
	}{
		"none":             {},
		"uuid":             {given: []string{"2b1a1f0e-6f4d-4a51-9d5b-0b6e7c1d2e3f"}, wantKept: true},
		"all allowed":      {given: []string{"aZ09-_.:+/=@"}, wantKept: true},
		"longest":          {given: []string{strings.Repeat("a", maxRequestIDLength)}, wantKept: true},
		"too long":         {given: []string{strings.Repeat("a", maxRequestIDLength+1)}},
		"empty":            {given: []string{""}},
		"space":            {given: []string{"a b"}},
		"quote":            {given: []string{`a"b`}},
		"line break":       {given: []string{"a\r\nSet-Cookie: x"}},
		"non-ASCII":        {given: []string{"é"}},
		"brackets":         {given: []string{"a[b"}},
		"two that clash":   {given: []string{"a", "b"}},
		"two in one value": {given: []string{"a,b"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := RequestID(http.Header{HeaderRequestID: tc.given})
			if !validRequestID(got) {
				t.Errorf("RequestID gave the invalid %q", got)
			}
			if kept := len(tc.given) > 0 && got == tc.given[0]; kept != tc.wantKept {
				t.Errorf("RequestID(%q) = %q, want kept %v", tc.given, got, tc.wantKept)
			}
		})
	}
	if first, second := RequestID(nil), RequestID(nil); first == second {
		t.Error("two calls got the same id")
	}
}

// TestRequestIDInEveryAnswer covers what a function answers. The refusals are checked by checkRefusal.
func TestRequestIDInEveryAnswer(t *testing.T) {
	t.Parallel()
	seen := make(chan []string, 1)
	g := startFunction(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Values(HeaderRequestID)
		w.Header().Add(HeaderRequestID, "of-the-function")
		w.Header().Add(HeaderRequestID, "twice")
		switch r.URL.Path {
		case "/hints": // informational answers empty the header map
			w.Header().Set("Link", "</x>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
		case "/hidden": // hop-by-hop names must not take the id away
			w.Header().Set("Connection", HeaderRequestID)
		}
	})
	for _, path := range []string{"/", "/hints", "/hidden"} {
		req := newRequest(t, http.MethodGet, g.url+"/fn/demo/hello"+path, nil)
		req.Header.Set(HeaderRequestID, "mine-1")
		req.Header.Set("Connection", HeaderRequestID)
		a := do(t, newClient(t), req)
		if got := a.header.Values(HeaderRequestID); len(got) != 1 || got[0] != "mine-1" {
			t.Errorf("%s: the client got %q", path, got)
		}
		if got := receive(t, seen); len(got) != 1 || got[0] != "mine-1" {
			t.Errorf("%s: the function got %q", path, got)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := get(t, g.url+path); a.status != http.StatusOK || a.header.Get(HeaderRequestID) == "" {
			t.Errorf("%s: %d with id %q", path, a.status, a.header.Get(HeaderRequestID))
		}
	}
}
