// SPDX-License-Identifier: Apache-2.0

package invoke

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/runtimes/watchdog/internal/worker"
)

func TestEventKind(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ contentType, wantEvent, wantCharset string }{
		"json":             {"application/json", worker.EventJSON, ""},
		"upper case":       {"Application/JSON;Charset=UTF-8", worker.EventJSON, ""},
		"dialect":          {"application/problem+json", worker.EventJSON, ""},
		"text":             {"text/plain", worker.EventText, "utf-8"},
		"charset":          {`text/html; charset="ISO-8859-1"`, worker.EventText, "ISO-8859-1"},
		"broken parameter": {"application/json; charset", worker.EventJSON, ""},
		"form":             {"application/x-www-form-urlencoded", worker.EventBytes, ""},
		"none":             {"", worker.EventBytes, ""},
		"not json":         {"application/jsonp", worker.EventBytes, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if event, charset := eventKind(tc.contentType); event != tc.wantEvent || charset != tc.wantCharset {
				t.Errorf("got %s, %s, want %s, %s", event, charset, tc.wantEvent, tc.wantCharset)
			}
		})
	}
}

func TestParseQuery(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		query string
		want  map[string]any
	}{
		"empty":      {"", map[string]any{}},
		"single":     {"a=1", map[string]any{"a": "1"}},
		"repeated":   {"a=1&a=2&a=3", map[string]any{"a": []string{"1", "2", "3"}}},
		"no value":   {"a&b=", map[string]any{"a": "", "b": ""}},
		"no name":    {"=1", map[string]any{"": "1"}},
		"separators": {"&&a=1&", map[string]any{"a": "1"}},
		"semicolon":  {"a=1;b=2", map[string]any{"a": "1;b=2"}},
		"encoded":    {"a%20b=c+d%26", map[string]any{"a b": "c d&"}},
		"broken":     {"a=%f&b=%41", map[string]any{"a": "%f", "b": "A"}},
		"equal sign": {"a=b=c", map[string]any{"a": "b=c"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, parseQuery(tc.query)); diff != "" {
				t.Errorf("query (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewHeadKeepsTheRawPath(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"/", "/a%2Fb", "//double", "/a/../b", "/%E4%F6", "/a+b", "/a;b,c", "/ü"} {
		r := httptest.NewRequest(http.MethodGet, "http://host"+target+"?x=%2F", nil)
		head := newHead(r, "id", 7, false)
		want := target
		if target == "/ü" { // not valid in a request line, but some clients send it
			want = "/%C3%BC"
		}
		if head.RawPath != want || head.Call != 7 || head.Event != worker.EventQuery || head.Headers["host"] != "host" {
			t.Errorf("head of %s: %+v, want raw path %s", target, head, want)
		}
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		id       string
		wantKept bool
	}{
		"good":          {"3f2a-1/x:y", true},
		"empty":         {"", false},
		"space":         {"a b", false},
		"line feed":     {"a\nb", false},
		"not ascii":     {"ü", false},
		"longest":       {strings.Repeat("x", 128), true},
		"far too large": {strings.Repeat("x", 129), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := requestID(http.Header{RequestIDHeader: {tc.id}})
			if kept := got == tc.id; kept != tc.wantKept || got == "" {
				t.Errorf("id %q became %q, want kept %t", tc.id, got, tc.wantKept)
			}
		})
	}
	if first, second := requestID(nil), requestID(nil); first == second {
		t.Error("two made ids are the same")
	}
}

func TestHostIsTheCallers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		host, forwarded, want string
	}{
		"straight":                        {host: "fn.example.com", want: "fn.example.com"},
		"straight, with a proxy in front": {host: "fn.example.com", forwarded: "other.example.com", want: "fn.example.com"},
		"through the interceptor":         {host: "hello.sless-fn-demo.fn.sless.internal", forwarded: "fn.example.com", want: "fn.example.com"},
		"from inside":                     {host: "hello.sless-fn-demo.fn.sless.internal", want: "hello.sless-fn-demo.fn.sless.internal"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodGet, "http://"+tc.host+"/", nil)
			if tc.forwarded != "" {
				r.Header.Set("X-Forwarded-Host", tc.forwarded)
			}
			if got := newHead(r, "id", 1, false).Headers["host"]; got != tc.want {
				t.Errorf("host %q, want %q", got, tc.want)
			}
		})
	}
}

func TestServerTimings(t *testing.T) {
	t.Parallel()
	loaded := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		began time.Time
		last  *load
		want  []string
	}{
		"a fresh replica":    {loaded.Add(time.Second), &load{loaded, 30 * time.Millisecond}, []string{"handler;dur=1.2", "load;dur=30.0"}},
		"an old replica":     {loaded.Add(time.Minute), &load{loaded, 30 * time.Millisecond}, []string{"handler;dur=1.2"}},
		"nothing was loaded": {loaded, nil, []string{"handler;dur=1.2"}},
	}
	for name, tc := range tests {
		got := serverTimings(tc.began, tc.began.Add(1234567*time.Nanosecond), tc.last)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
