// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// loadTest is a handler and what the termination log says about it; "" means that it loads.
type loadTest struct {
	files      map[string]string
	entrypoint string
	want       string
}

var pythonLoadTests = map[string]loadTest{
	"good":               {files: map[string]string{"handler.py": "def handle(event, context): pass"}},
	"one argument":       {files: map[string]string{"handler.py": "def handle(event): pass"}},
	"optional arguments": {files: map[string]string{"handler.py": "def handle(event, context, more=None): pass"}},
	"any arguments":      {files: map[string]string{"handler.py": "def handle(*args): pass"}},
	"callable object": {files: map[string]string{
		"handler.py": "class H:\n    def __call__(self, event): pass\nhandle = H()"}},
	"wrapped": {files: map[string]string{
		"handler.py": "import functools\ndef f(event): pass\n@functools.wraps(f)\ndef handle(*args): return f(*args)"}},
	"sub folder": {entrypoint: "src/api/app.main", files: map[string]string{
		"src/api/app.py":  "from . import near\nfrom .near import X\nimport top\nimport near\ndef main(event): pass",
		"src/api/near.py": "X = 1", "top.py": ""}},
	"named like a standard module": {entrypoint: "json.handle", files: map[string]string{
		"json.py": "import socket\ndef handle(event): pass"}},
	"missing file": {want: "handler.py: the file does not exist"},
	"syntax error": {files: map[string]string{"handler.py": "import os\n\ndef handle(:\n"},
		want: "handler.py line 3: SyntaxError: invalid syntax"},
	"bad indentation": {files: map[string]string{"handler.py": "def handle(event):\nreturn 1\n"},
		want: "handler.py line 2: IndentationError: expected an indented block after function definition on line 1"},
	"syntax error in an import": {files: map[string]string{"handler.py": "import other\n", "other.py": "\n\nx = = 1\n"},
		want: "other.py line 3: SyntaxError: invalid syntax"},
	"import error": {files: map[string]string{"handler.py": "import os\nimport no_such_module\n"},
		want: "handler.py line 2: ModuleNotFoundError: No module named 'no_such_module'"},
	"import error in an import": {files: map[string]string{"handler.py": "import other\n", "other.py": "\nimport nix\n"},
		want: "other.py line 2: ModuleNotFoundError: No module named 'nix'"},
	"name error": {files: map[string]string{"handler.py": "import os\n\nx = undefined_name\n"},
		want: "handler.py line 3: NameError: name 'undefined_name' is not defined"},
	"exception in a library": {files: map[string]string{"handler.py": "import json\njson.loads('{')\n"},
		want: "handler.py line 2: JSONDecodeError: Expecting property name enclosed in double quotes: " +
			"line 1 column 2 (char 1)"},
	"missing function": {files: map[string]string{"handler.py": "def other(event): pass\n"},
		want: "handler.py: function 'handle' is not defined"},
	"no function": {files: map[string]string{"handler.py": "import os\nhandle = 5\n"},
		want: "handler.py line 2: 'handle' is of type int, not a function"},
	"no arguments": {files: map[string]string{"handler.py": "\ndef handle(): pass\n"},
		want: "handler.py line 2: 'handle' takes 0 arguments, want (event, context) or (event)"},
	"too many arguments": {files: map[string]string{"handler.py": "\ndef handle(a, b, c): pass\n"},
		want: "handler.py line 2: 'handle' takes 3 arguments, want (event, context) or (event)"},
	"exit at import": {files: map[string]string{"handler.py": "import sys\nsys.exit(4)\n"},
		want: "handler.py line 2: SystemExit: 4"},
	"end at import": {files: map[string]string{"handler.py": "import os\nos._exit(4)\n"},
		want: "while loading the handler, the function's process ended with exit status 4"},
	"sub folder with error": {entrypoint: "src/app.main", files: map[string]string{"src/app.py": "\n1/0\n"},
		want: "src/app.py line 2: ZeroDivisionError: division by zero"},
}

var nodeLoadTests = map[string]loadTest{
	"commonjs":          {files: map[string]string{"handler.js": "module.exports.handle = () => 1"}},
	"commonjs function": {files: map[string]string{"handler.cjs": "exports.handle = function () {}"}},
	"es module":         {files: map[string]string{"handler.mjs": "export const handle = () => 1"}},
	"type module": {files: map[string]string{"handler.js": "export async function handle() {}",
		"package.json": `{"type":"module"}`}},
	"default object":  {files: map[string]string{"handler.mjs": "export default { handle() {} }"}},
	"top-level await": {files: map[string]string{"handler.mjs": "await 1; export const handle = () => 1"}},
	"dependency": {files: map[string]string{"handler.mjs": "import { x } from 'dep'; export const handle = () => x",
		"node_modules/dep/index.js": "exports.x = 1"}},
	"sub folder": {entrypoint: "src/app.main", files: map[string]string{
		"src/app.js": "require('./near'); require('../top'); exports.main = () => 1", "src/near.js": "", "top.js": ""}},
	"missing file": {want: "handler.js: the file does not exist"},
	"syntax error": {files: map[string]string{"handler.js": "const a = 1;\nconst = 5;\n"},
		want: "handler.js line 2: SyntaxError: Unexpected token '='"},
	"syntax error in an es module": {files: map[string]string{"handler.mjs": "const a = 1;\n\nconst = 5;\n"},
		want: "handler.mjs line 3: SyntaxError: Unexpected token '='"},
	"syntax error in an import": {files: map[string]string{
		"handler.mjs": "import './other.mjs';\n", "other.mjs": "\nlet a; let a;\n"},
		want: "other.mjs line 2: SyntaxError: Identifier 'a' has already been declared"},
	"syntax error in a require": {files: map[string]string{
		"handler.js": "require('./other');\n", "other.js": "\n\nfunction (\n"},
		want: "other.js line 3: SyntaxError: Function statements require a function name"},
	"syntax error, commonjs from es module": {files: map[string]string{
		"handler.mjs": "import './other.cjs';\n", "other.cjs": "\n\nlet 1;\n"},
		want: "other.cjs line 3: SyntaxError: Unexpected number"},
	"missing module": {files: map[string]string{"handler.js": "\nrequire('nothing-here');\n"},
		want: "handler.js line 2: Error: Cannot find module 'nothing-here' Require stack: - "},
	"missing package in an es module": {files: map[string]string{"handler.mjs": "\n\nimport x from 'nothing-here';\n"},
		want: "handler.mjs line 3: Error: Cannot find package 'nothing-here' imported from "},
	"missing export": {files: map[string]string{"handler.mjs": "\nimport { y } from './other.mjs';\n", "other.mjs": ""},
		want: "handler.mjs line 2: SyntaxError: The requested module './other.mjs' does not provide an export named 'y'"},
	"reference error": {files: map[string]string{"handler.js": "\n\nfoo.bar();\n"},
		want: "handler.js line 3: ReferenceError: foo is not defined"},
	"reference error in an es module": {files: map[string]string{"handler.mjs": "\n\n\nfoo.bar();\n"},
		want: "handler.mjs line 4: ReferenceError: foo is not defined"},
	"exception in a library": {files: map[string]string{"handler.js": "\nJSON.parse('{');\n"},
		want: "handler.js line 2: SyntaxError: Expected property name or '}' in JSON at position 1"},
	"thrown text": {files: map[string]string{"handler.js": "throw 'no reason';\n"}, want: "handler.js: no reason"},
	"missing function": {files: map[string]string{"handler.js": "exports.other = () => 1;\n"},
		want: "handler.js: function 'handle' is not exported"},
	"no function": {files: map[string]string{"handler.js": "\nexports.handle = 5;\n"},
		want: "handler.js line 2: 'handle' is of type number, not a function"},
	"no function in an es module": {files: map[string]string{"handler.mjs": "\n\nexport const handle = 'x';\n"},
		want: "handler.mjs line 3: 'handle' is of type string, not a function"},
	"end at import": {files: map[string]string{"handler.js": "process.exit(4);\n"},
		want: "while loading the handler, the function's process ended with exit status 4"},
	"await that never ends": {files: map[string]string{"handler.mjs": "await new Promise(() => {});\n"},
		want: "while loading the handler, the function's process ended with exit status 13"},
}

func TestLoad(t *testing.T) {
	t.Parallel()
	for l, tests := range map[*language]map[string]loadTest{&python: pythonLoadTests, &node: nodeLoadTests} {
		for name, tc := range tests {
			t.Run(l.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				checkLoad(t, *l, tc)
			})
		}
	}
}

func checkLoad(t *testing.T, l language, tc loadTest) {
	if tc.files == nil {
		tc.files = map[string]string{"README": ""}
	}
	p := newProgram(t, l, tc.files)
	if tc.entrypoint != "" {
		p.entrypoint = tc.entrypoint
	}
	p.start("check")
	code, message := p.wait()
	if tc.want == "" {
		if code != 0 || message != "" {
			t.Errorf("exit %d, %q, want 0 and no message", code, message)
		}
		return
	}
	if want := "HandlerLoadFailed: " + tc.want; code != 1 || !strings.HasPrefix(message, want) {
		t.Errorf("exit %d, %q, want 1, %q", code, message, want)
	}
	if log := p.stderr.String(); !strings.Contains(log, message) || strings.Contains(message, "\n") {
		t.Errorf("message %q, want one line that is in the log too", message)
	}
	if strings.Contains(tc.want, "Error") && strings.Count(p.stderr.String(), "\n") < 2 {
		t.Errorf("no stack in the log: %s", p.stderr.String())
	}
}

func TestServeEndsWhenTheHandlerCannotBeLoaded(t *testing.T) {
	t.Parallel()
	p := newProgram(t, python, map[string]string{"handler.py": "\n\nx = y\n"})
	p.start("serve", "--port", "0", "--admin-port", "0")
	code, message := p.wait()
	if want := "HandlerLoadFailed: handler.py line 3: NameError: name 'y' is not defined"; code != 1 || message != want {
		t.Errorf("exit %d, %q, want 1, %q", code, message, want)
	}
	if !strings.Contains(p.stderr.String(), "Traceback (most recent call last):") {
		t.Errorf("no traceback: %s", p.stderr.String())
	}
}

func TestLoadTimeout(t *testing.T) {
	t.Parallel()
	p := newProgram(t, python, map[string]string{"handler.py": "import time\ntime.sleep(3600)\n"})
	p.start("check", "--load-timeout", "300ms")
	code, message := p.wait()
	if want := "HandlerLoadFailed: loading the handler took longer than 300ms"; code != 1 || message != want {
		t.Errorf("exit %d, %q, want 1, %q", code, message, want)
	}
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		env  string
		want string
	}{
		"command":    {args: []string{"sing"}, want: `unknown command "sing"`},
		"argument":   {args: []string{"serve", "loudly"}, want: `unexpected argument "loudly"`},
		"flag":       {args: []string{"check", "--colour", "red"}, want: "not defined: -colour"},
		"timeout":    {args: []string{"check", "--timeout", "0s"}, want: "timeout must be above 0"},
		"entrypoint": {args: []string{"check"}, env: envEntrypoint + "=handler", want: `SLESS_ENTRYPOINT is "handler"`},
		"worker":     {args: []string{"check"}, env: envWorker + "=", want: "SLESS_WORKER is not set"},
		"no program": {args: []string{"check"}, env: envWorker + "=/no/such/program",
			want: "cannot start the language worker"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t, python, nil)
			if p.env = nil; tc.env != "" {
				p.env = []string{tc.env}
			}
			p.start(tc.args...)
			if code, message := p.wait(); code != 1 || !strings.Contains(message, tc.want) {
				t.Errorf("exit %d, %q, want 1, %q", code, message, tc.want)
			}
		})
	}
}

// TestPythonDependencies has packages in the folder of the dependency image, one of which needs its .pth file.
func TestPythonDependencies(t *testing.T) {
	t.Parallel()
	p := newProgram(t, python, map[string]string{
		"handler.py": "import plain, hidden, near\ndef handle(event): pass", "near.py": "", "deps/near.py": "1/0",
		"deps/plain.py": "", "deps/sub/hidden.py": "", "deps/extra.pth": "sub\n",
	})
	p.env = []string{"SLESS_DEPS_DIR=" + p.appDir + "/deps", "PYTHONPATH=/somewhere/else"}
	p.start("check")
	if code, message := p.wait(); code != 0 {
		t.Errorf("exit %d, %q", code, message)
	}
}
