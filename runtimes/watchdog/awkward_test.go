// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// unreadable is what Node's worker says of a value that throws whatever it is asked.
const unreadable = "a value that cannot be shown"

// TestFailuresThatCannotBeLookedAt has handlers that throw what throws again when somebody looks at it. Each of these calls
// fails alone: the worker goes on.
func TestFailuresThatCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		language
		want map[string]string // the error by kind
	}{
		{python, map[string]string{
			"silent": "Silent: the message cannot be read", "wordless": "Wordless: the message cannot be read",
			"closed": "Closed: the message cannot be read", "subclassed": "Subclassed: the message cannot be read",
			"surrogate": "ValueError: a\ufffdb", "huge": "ValueError: xxx", "huge name": "NNN",
			"odd syntax error": "SyntaxError: bad", "nameless syntax error": "SyntaxError: 5",
			"interrupt": "KeyboardInterrupt", "generator exit": "GeneratorExit",
			"async exit": "SystemExit: 4", "async interrupt": "KeyboardInterrupt", "async silent": "Silent: the message",
			"silent cause": "ValueError: outer", "result": "KeyError: 'lost'", "silent result": "no text",
			"huge result": "the handler returned NoItems", "stderr": "ValueError: boom",
		}},
		{node, map[string]string{
			"message": unreadable, "stack": "Error: x", "name": unreadable, "inspect": "Error: boom", "null": "null",
			"undefined": "undefined", "symbol": "Symbol(s)", "no prototype": unreadable, "no text": unreadable,
			"closed": unreadable, "revoked": unreadable, "closed function": unreadable, "surrogate": "Error: a\ufffdb",
			"huge": "Error: xxx", "odd stack": "Error: x", "rejected": unreadable, "result": "no JSON form: Error: lost",
			"null from result": "no JSON form: null", "closed from result": unreadable, "huge from result": "no JSON form: Error: xxx",
			"closed result": "trapped", "log": "Error: logged",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newAwkward(t, tc.language)
			before := p.get("/?kind=pid").body
			for kind, want := range tc.want {
				text := errorText(t, p.get("/?kind="+url.QueryEscape(kind)), http.StatusInternalServerError, "")
				if !strings.Contains(text, want) || len(text) > 10_000 {
					t.Errorf("%s: error of %d bytes %.200q, want %q", kind, len(text), text, want)
				}
			}
			if got := p.get("/?kind=stream"); got.code != http.StatusOK || got.err == nil {
				t.Errorf("reply %d %q, %v, want a broken stream", got.code, got.body, got.err)
			}
			if after := p.get("/?kind=pid").body; after != before {
				t.Errorf("process %q after %q, want no other", after, before)
			}
		})
	}
}

func newAwkward(t *testing.T, l language) *program {
	t.Helper()
	name := "awkward" + l.extension
	p := newProgram(t, l, map[string]string{name: mustRead(t, "testdata/"+l.name+"/"+name)})
	p.entrypoint = "awkward.handle"
	return p.serve()
}

// TestLoadFailuresThatCannotBeLookedAt has a file that throws such a value at its top.
func TestLoadFailuresThatCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		language
		code, want string
	}{
		{python, "class Silent(Exception):\n    def __str__(self):\n        raise KeyError\nraise Silent\n", "Silent: the message cannot be read"},
		{node, "throw Object.create(null);\n", unreadable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t, tc.language, map[string]string{"handler" + tc.extension: tc.code})
			p.start("serve", "--port", "0", "--admin-port", "0")
			if code, message := p.wait(); code == 0 || !strings.Contains(message, tc.want) {
				t.Errorf("exit code %d, %q, want %q", code, message, tc.want)
			}
		})
	}
}

// TestNodeNamesACrashThatCannotBeLookedAt throws outside of every call, which ends the process.
func TestNodeNamesACrashThatCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	p := newProgram(t, node, map[string]string{
		"handler.js": "exports.handle = () => { setTimeout(() => { throw Object.create(null); }, 0); return new Promise(() => {}); };\n",
	}).serve()
	text := errorText(t, p.get("/"), http.StatusBadGateway, "")
	if !strings.Contains(text, unreadable) {
		t.Errorf("error %q", text)
	}
}

// TestManyPausesOfAStreamLeaveNoListeners sends chunks each of which is more than the worker's socket takes at once.
func TestManyPausesOfAStreamLeaveNoListeners(t *testing.T) {
	t.Parallel()
	p := newProgram(t, node, nil).serve()
	if got := p.get("/large"); got.code != http.StatusOK || len(got.body) != 40<<20 || got.err != nil {
		t.Fatalf("reply %d with %d bytes, %v", got.code, len(got.body), got.err)
	}
	p.get("/log") // what Node had to say comes before
	p.eventually("output", func() bool { return strings.Contains(p.stderr.String(), "to stderr\n") })
	if log := p.stderr.String(); strings.Contains(log, "MaxListenersExceededWarning") {
		t.Errorf("Node warns of a leak: %s", log)
	}
}

// TestAnIteratorThatCannotBeClosedEndsItsAnswerOnce shows that nothing follows the end of an answer: the next call on the
// connection would take it for its own.
func TestAnIteratorThatCannotBeClosedEndsItsAnswerOnce(t *testing.T) {
	t.Parallel()
	p := newProgram(t, node, nil).serve()
	for range 3 {
		if got := p.get("/unclosable"); got.code != http.StatusOK || got.body != "" || got.err != nil {
			t.Errorf("reply %d %q, %v", got.code, got.body, got.err)
		}
		if got := p.get("/text"); got.code != http.StatusOK || got.body != "grüße" {
			t.Errorf("next call: %d %q, %v", got.code, got.body, got.err)
		}
	}
}

// TestLeavingAPausedStreamEndsIt has a caller that stops reading and leaves while the worker waits to be read.
func TestLeavingAPausedStreamEndsIt(t *testing.T) {
	t.Parallel()
	p := newProgram(t, node, nil).serve("--concurrency", "1")
	response, err := http.Get(p.url + "/large")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(response.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	p.eventually("free slot", func() bool { return p.get("/zero").code == http.StatusOK })
}
