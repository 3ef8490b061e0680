// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/internal/naming"
)

// allBytes is every value that a byte can have.
var allBytes = func() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}()

func TestResultKinds(t *testing.T) {
	t.Parallel()
	const jsonType, textType, bytesType = "application/json", "text/plain; charset=utf-8", "application/octet-stream"
	tests := map[string]struct {
		path     string
		wantCode int
		wantType string
		wantBody string
	}{
		"object":           {"/dict", 200, jsonType, `{"a":1,"ü":[true,null]}`},
		"list":             {"/list", 200, jsonType, `[1,"two"]`},
		"zero":             {"/zero", 200, jsonType, `0`},
		"false":            {"/false", 200, jsonType, `false`},
		"nothing returned": {"/null", 200, jsonType, `null`},
		"empty text":       {"/empty", 200, textType, ``},
		"text":             {"/text", 200, textType, `grüße`},
		"bytes":            {"/bytes", 200, bytesType, string(allBytes)},
		"status and body":  {"/created", 201, jsonType, `{"id":1}`},
		"own content type": {"/page", 200, "text/html", `<p>`},
		"base64":           {"/base64", 200, bytesType, "\x00\xff"},
		"no content":       {"/nothing", 204, "", ``},
		"redirect":         {"/redirect", 302, "", ``},
		"hop-by-hop":       {"/hop", 200, textType, `whole`},
		"empty iterator":   {"/no-chunks", 200, bytesType, ``},
	}
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				got := p.get(tc.path)
				if got.err != nil || got.code != tc.wantCode || got.body != tc.wantBody {
					t.Errorf("GET %s = %d %q, %v, want %d %q", tc.path, got.code, got.body, got.err, tc.wantCode, tc.wantBody)
				}
				if gotType := got.header.Get("Content-Type"); gotType != tc.wantType {
					t.Errorf("Content-Type %q, want %q", gotType, tc.wantType)
				}
				head := p.do(context.Background(), "HEAD", tc.path, nil, nil)
				if head.err != nil || head.code != tc.wantCode || head.body != "" {
					t.Errorf("HEAD %s = %d %q, %v, want %d without a body", tc.path, head.code, head.body, head.err, tc.wantCode)
				}
			})
		}
		got, cookies := p.get("/created").header, []string{"a=1", "b=2"}
		if cmp.Diff(cookies, got["Set-Cookie"]) != "" || got.Get("X-Number") != "7" {
			t.Errorf("headers %v, want both cookies and the number", got)
		}
	})
}

// TestHandlersCannotSpeakForSless has a handler that passes on the answer of another function, which was full.
func TestHandlersCannotSpeakForSless(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		got := newProgram(t, l, nil).serve().get("/relay")
		if got.err != nil || got.code != http.StatusTooManyRequests || got.body != "theirs" || got.header.Get("X-Slessly") != "kept" {
			t.Errorf("reply %d %q %v, %v, want the handler's own", got.code, got.body, got.header, got.err)
		}
		for name := range got.header {
			if naming.IsInternalHeader(name) {
				t.Errorf("the handler said %s: %s", name, got.header.Get(name))
			}
		}
	})
}

func TestBadResultsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ path, wantPython, wantNode string }{
		"exception":        {"/raise", "ValueError: boom", "TypeError: boom"},
		"set":              {"/collection", "returned set", "returned Set"},
		"function":         {"/function", "returned function", "returned function"},
		"not a number":     {"/nan", "returned float", "returned NaN"},
		"text as status":   {"/bad-status", `statusCode "ok"`, `statusCode "ok"`},
		"low status":       {"/low-status", `statusCode 100`, `statusCode 100`},
		"header name":      {"/bad-header", `header name "a b"`, `header name "a b"`},
		"header value":     {"/bad-value", "value for header a", "value for header a"},
		"text as headers":  {"/bad-headers", `not an object: "a"`, `not an object: "a"`},
		"broken base64":    {"/not-base64", "not base64", "not base64"},
		"first chunk":      {"/fail-first", "ValueError: stream broke", "RangeError: stream broke"},
		"unknown function": {"/unknown", "KeyError", "TypeError"},
	}
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				want := tc.wantPython
				if l.name == node.name {
					want = tc.wantNode
				}
				got := p.do(context.Background(), "GET", tc.path, http.Header{"X-Request-Id": {"id-1"}}, nil)
				text := errorText(t, got, http.StatusInternalServerError, "id-1")
				if !strings.Contains(text, want) || strings.Contains(text, "handler"+l.extension) {
					t.Errorf("error %q, want %q and no stack", text, want)
				}
			})
		}
		p.eventually("stack on stderr", func() bool {
			log := p.stderr.String()
			return strings.Contains(log, "handler"+l.extension) && strings.Contains(log, "boom")
		})
	})
}

// errorText checks the form of an error and returns its text.
func errorText(t *testing.T, got reply, wantCode int, wantID string) string {
	t.Helper()
	var body struct{ Error, RequestID string }
	err := json.Unmarshal([]byte(got.body), &body)
	if got.err != nil || err != nil || got.code != wantCode {
		t.Fatalf("reply %d %q, %v, want %d and JSON", got.code, got.body, got.err, wantCode)
	}
	if id := got.header.Get("X-Request-Id"); body.RequestID != id || id == "" || wantID != "" && id != wantID {
		t.Errorf("request id %q, header %q, want %q", body.RequestID, id, wantID)
	}
	return body.Error
}

func TestEvents(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789", 500_000)
	tests := map[string]struct {
		path, contentType, body string
		wantType, wantEcho      string
	}{
		"json":                {"", "application/json", `{"a":[1.5,"ü"]}`, "dict", `{"a":[1.5,"ü"]}`},
		"json with charset":   {"", "application/json; charset=utf-8", ` [1] `, "list", `[1]`},
		"json dialect":        {"", "application/vnd.api+json", `{}`, "dict", `{}`},
		"json text":           {"", "application/json", `"x"`, "str", `x`},
		"json null":           {"", "application/json", `null`, "NoneType", `null`},
		"json false":          {"", "application/json", `false`, "bool", `false`},
		"text":                {"", "text/plain", `grüße`, "str", `grüße`},
		"text in latin1":      {"", "text/plain; charset=iso-8859-1", "gr\xfc\xdfe", "str", `grüße`},
		"bytes":               {"", "application/octet-stream", string(allBytes), "bytes", string(allBytes)},
		"form is bytes":       {"", "application/x-www-form-urlencoded", "a=1", "bytes", "a=1"},
		"no type":             {"", "", "\x00\xff", "bytes", "\x00\xff"},
		"no body":             {"?a=1&b=2&b=3&c=&d=x%20y+z", "", "", "dict", `{"a":"1","b":["2","3"],"c":"","d":"x y z"}`},
		"empty json body":     {"?a=1", "application/json", "", "dict", `{"a":"1"}`},
		"query that is no %":  {"?a=%zz", "", "", "dict", `{"a":"%zz"}`},
		"large, many frames":  {"", "text/plain", large, "str", large},
		"nested prototype":    {"", "application/json", `{"__proto__":{"a":1}}`, "dict", `{"__proto__":{"a":1}}`},
		"lone surrogate":      {"", "application/json", `{"a":"\ud800"}`, "dict", `{"a":"\ud800"}`},
		"byte order mark":     {"", "application/json", "\xef\xbb\xbf{}", "dict", `{}`},
		"line feeds are kept": {"", "text/csv", "a\r\nb\n", "str", "a\r\nb\n"},
	}
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				if got := p.post("/type"+tc.path, tc.contentType, []byte(tc.body)); got.body != tc.wantType {
					t.Errorf("type of the event %q, want %q", got.body, tc.wantType)
				}
				if got := p.post("/echo"+tc.path, tc.contentType, []byte(tc.body)); got.code != 200 || got.body != tc.wantEcho {
					t.Errorf("echo %d %.200q, want %.200q", got.code, got.body, tc.wantEcho)
				}
			})
		}
	})
}

func TestBadEventsAreTheCallersFault(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ contentType, body string }{
		"broken json":      {"application/json", `{"a":`},
		"not a number":     {"application/json", `NaN`},
		"deep json":        {"application/json", strings.Repeat("[", 100_000)},
		"text not utf-8":   {"text/plain", "\xff"},
		"unknown encoding": {"text/plain; charset=klingon", "x"},
	}
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				text := errorText(t, p.post("/echo", tc.contentType, []byte(tc.body)), http.StatusBadRequest, "")
				if !strings.Contains(text, "the body is not valid") {
					t.Errorf("error %q", text)
				}
			})
		}
	})
}

func TestContext(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, map[string]string{
			"handler.py": strings.Replace(mustRead(t, "testdata/python3.11/handler.py"),
				"RESULTS[context.request.path]", "context_fields", 1),
			"handler.js": strings.Replace(mustRead(t, "testdata/nodejs20/handler.js"),
				"results[context.request.path]", "results['/context']", 1),
		}).serve("--function-name", "hello", "--function-namespace", "team-a")
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"} {
			header := http.Header{"X-Request-Id": {"id-7"}, "Cookie": {"a=1", "b=2"}, "X-Multi": {"1", "2"}}
			got := p.do(context.Background(), method, "/a%2Fb/./c%20d?q=1", header, nil)
			var fields map[string]any
			if err := json.Unmarshal([]byte(got.body), &fields); err != nil {
				t.Fatalf("%s: %d %q, %v", method, got.code, got.body, err)
			}
			want := map[string]any{
				"event": map[string]any{"q": "1"}, "method": method, "path": "/a/b/./c d", "rawPath": "/a%2Fb/./c%20d",
				"query": map[string]any{"q": "1"}, "requestId": "id-7", "name": "hello", "namespace": "team-a", "inTime": true,
				"cookie": "a=1; b=2", "multi": "1, 2", "host": strings.TrimPrefix(p.url, "http://"),
			}
			if diff := cmp.Diff(want, fields); diff != "" {
				t.Errorf("%s: context (-want +got):\n%s", method, diff)
			}
		}
	})
}

func TestOutputReachesTheLog(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		p.do(context.Background(), "GET", "/log", http.Header{"X-Request-Id": {"id-9"}}, nil)
		p.eventually("output", func() bool {
			return strings.Contains(p.stdout.String(), "to stdout\n") && strings.Contains(p.stderr.String(), "to stderr\n") &&
				strings.Contains(p.stderr.String(), "INFO id-9 from the logger")
		})
	})
}

func TestStateStaysBetweenCalls(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		for _, want := range []string{"1", "2", "3"} {
			if got := p.get("/count"); got.body != want {
				t.Errorf("count %q, want %q", got.body, want)
			}
		}
	})
}
