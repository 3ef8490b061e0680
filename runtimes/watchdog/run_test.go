// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const pythonJob = `
import json, os, time
def handle(event, context):
    kind = event.get("kind") if isinstance(event, dict) else None
    print("working", end="" if kind == "no newline" else "\n")
    if kind == "sleep":
        open(os.path.join(os.environ["NOTES"], "called"), "a").write("x")
        time.sleep(3600)
    if kind == "raise":
        raise ValueError("boom")
    if kind == "exit":
        os._exit(3)
    return {"text": "a <b> ü\n", "none": None, "binary": b"\x00\xff", 
            "status": {"statusCode": 422, "body": {"why": "x"}},
            "ok": {"statusCode": 200, "body": {"a": 1}}, "large": "x" * 5000, "limit": "x" * 4094,
            "chunks": iter(["a", "b"]), "page": {"statusCode": 200, "headers": {"content-type": "application/json"},
            "body": "{\n \"a\": 1\n}"}}.get(kind, {"event": event})
`

const nodeJob = `
exports.handle = async (event) => {
  const kind = event?.kind;
  process.stdout.write(kind === 'no newline' ? 'working' : 'working\n');
  if (kind === 'sleep') {
    require('node:fs').appendFileSync(process.env.NOTES + '/called', 'x');
    await new Promise(() => setInterval(() => {}, 1000));
  }
  if (kind === 'raise') throw new TypeError('boom');
  if (kind === 'exit') process.exit(3);
  const results = { text: 'a <b> ü\n', none: null, binary: Buffer.from([0, 255]),
    status: { statusCode: 422, body: { why: 'x' } }, ok: { statusCode: 200, body: { a: 1 } }, large: 'x'.repeat(5000),
    limit: 'x'.repeat(4094), chunks: (function* () { yield 'a'; yield 'b'; })(),
    page: { statusCode: 200, headers: { 'content-type': 'application/json' }, body: '{\n "a": 1\n}' } };
  return kind in results ? results[kind] : { event };
};
`

func TestRunOnce(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		event      string
		wantCode   int
		wantResult string // the last line of stdout, and the message unless that is given
		want       string // the termination log
	}{
		"object":       {event: `{"n": 1}`, wantResult: `{"event":{"n":1}}`},
		"other json":   {event: `[1, "ü"]`, wantResult: `{"event":[1,"ü"]}`},
		"null":         {event: `{"kind":"none"}`, wantResult: `null`},
		"text":         {event: `{"kind":"text"}`, wantResult: `"a <b> ü\n"`},
		"binary":       {event: `{"kind":"binary"}`, wantResult: `{"body":"AP8=","isBase64Encoded":true}`},
		"status 200":   {event: `{"kind":"ok"}`, wantResult: `{"a":1}`},
		"one line":     {event: `{"kind":"page"}`, wantResult: `{"a":1}`},
		"chunks":       {event: `{"kind":"chunks"}`, wantResult: `"ab"`},
		"no newline":   {event: `{"kind":"no newline"}`, wantResult: `{"event":{"kind":"no newline"}}`},
		"at the limit": {event: `{"kind":"limit"}`, wantResult: `"` + strings.Repeat("x", 4094) + `"`},
		"large": {event: `{"kind":"large"}`, wantResult: `"` + strings.Repeat("x", 5000) + `"`,
			want: "ResultTruncated: the result has 5002 bytes, it is the last line of the log"},
		"exception": {event: `{"kind":"raise"}`, wantCode: 1, want: "HandlerFailed: PLACE boom"},
		"crash": {event: `{"kind":"exit"}`, wantCode: 1,
			want: "HandlerCrashed: the function's process ended with exit status 3"},
		"bad status": {event: `{"kind":"status"}`, wantCode: 1,
			want: `HandlerFailed: the handler answered with status 422: {"why":"x"}`},
		"timeout": {event: `{"kind":"sleep"}`, wantCode: 1,
			want: "HandlerTimeout: handler.handle did not end within 3s"},
		"broken event": {event: `{"kind":`, wantCode: 1, want: "HandlerFailed: the body is not valid json: "},
	}
	eachLanguage(t, func(t *testing.T, l language) {
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				files := map[string]string{"handler.py": pythonJob, "handler.js": nodeJob, "event.json": tc.event}
				p := newProgram(t, l, files)
				p.start("run", "--event-file", filepath.Join(p.appDir, "event.json"), "--timeout", "3s")
				code, message := p.wait()
				lines := strings.Split(strings.TrimSuffix(p.stdout.String(), "\n"), "\n")
				want := tc.want
				if want == "" {
					want = tc.wantResult
				}
				place := map[string]string{
					python.name: "handler.py line 10: ValueError:", node.name: "handler.js line 9: TypeError:",
				}[l.name]
				want = strings.Replace(want, "PLACE", place, 1)
				if code != tc.wantCode || !strings.HasPrefix(message, want) {
					t.Errorf("exit %d, %.200q, want %d, %.200q", code, message, tc.wantCode, want)
				}
				if tc.wantResult == "" {
					return
				}
				last := lines[len(lines)-1]
				if last != tc.wantResult || !json.Valid([]byte(last)) || lines[0] != "working" {
					t.Errorf("stdout %.200q, want the output and then %.200q", lines, tc.wantResult)
				}
			})
		}
	})
}

func TestRunIsInterrupted(t *testing.T) {
	t.Parallel()
	p := newProgram(t, python, map[string]string{"handler.py": pythonJob, "event.json": `{"kind":"sleep"}`})
	p.start("run", "--event-file", filepath.Join(p.appDir, "event.json"))
	p.called(1)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	code, message := p.wait()
	if want := "Interrupted: told to stop before the handler was done"; code != 1 || message != want {
		t.Errorf("exit %d, %q, want 1, %q", code, message, want)
	}
}

func TestRunReportsALoadFailure(t *testing.T) {
	t.Parallel()
	p := newProgram(t, node, map[string]string{"handler.js": "\nnope;\n", "event.json": `{}`})
	p.start("run", "--event-file", filepath.Join(p.appDir, "event.json"))
	code, message := p.wait()
	if want := "HandlerLoadFailed: handler.js line 2: ReferenceError: nope is not defined"; code != 1 || message != want {
		t.Errorf("exit %d, %q, want 1, %q", code, message, want)
	}
}
