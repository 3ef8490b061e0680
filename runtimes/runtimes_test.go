// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "write the golden files")

func mustLookup(t *testing.T, name string) Runtime {
	t.Helper()
	catalogue, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	r, ok := catalogue.Lookup(name)
	if !ok {
		t.Fatalf("no runtime %s", name)
	}
	return r
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	catalogue, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob("*/runtime.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := range folders {
		folders[i] = filepath.Dir(folders[i])
	}
	if diff := cmp.Diff(folders, catalogue.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if _, ok := catalogue.Lookup("cobol"); ok {
		t.Error("found a runtime that does not exist")
	}
	python := mustLookup(t, "python3.11")
	want := "registry.example/team/sless-runtime-python3.11:v0.1.0"
	if got := python.Reference("registry.example/team"); got != want {
		t.Errorf("reference %s, want %s", got, want)
	}
	if diff := cmp.Diff([]string{"requirements.txt", "pip.conf"}, python.DependencyFiles()); diff != "" {
		t.Errorf("dependency files (-want +got):\n%s", diff)
	}
}

func TestEndOfLife(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		now  string
		want bool
	}{
		"before":         {"2026-04-29T12:00:00Z", false},
		"on the day":     {"2026-04-30T23:59:59Z", false},
		"the next day":   {"2026-05-01T00:00:00Z", true},
		"some time zone": {"2026-05-01T01:00:00+02:00", false},
	}
	end := mustLookup(t, "nodejs20").EndOfLife
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, err := time.Parse(time.RFC3339, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			if got := end.PassedBy(now); got != tc.want {
				t.Errorf("%s passed by %s: %t, want %t", end, now, got, tc.want)
			}
		})
	}
}

const goodYAML = `
name: lang1
language: Lang
image: sless-runtime-lang1
version: v1.2.3
defaultEntrypoint: handler.handle
extensions: [.l]
endOfLife: "2030-01-31"
defaultConcurrency: 1
dependencies: {manifest: deps.txt, extra: [lock], directory: /deps, detect: {format: lines}, install: get,
  lockFile: lock, installWithLock: get --locked}
`

func TestLoadIsStrict(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ old, new, want string }{
		"good":              {"", "", ""},
		"no dependencies":   {"manifest: deps.txt,", "", ""},
		"unknown field":     {"language:", "lingo:", `unknown field "lingo"`},
		"repeated field":    {"version:", "name: lang1\nversion:", `key "name" already set`},
		"other name":        {"name: lang1", "name: lang2", `want the name of the folder, "lang1"`},
		"no language":       {"language: Lang", "", "language is missing"},
		"registry in image": {"image: sless", "image: registry/sless", "no repository name"},
		"latest":            {"v1.2.3", "latest", `version is "latest"`},
		"extension":         {"[.l]", "[l]", "extensions are"},
		"entrypoint":        {"handler.handle", "handler", "defaultEntrypoint"},
		"date":              {"2030-01-31", "2030-02-31", "day out of range"},
		"no date":           {`endOfLife: "2030-01-31"`, "", "endOfLife is missing"},
		"concurrency":       {"defaultConcurrency: 1", "defaultConcurrency: 0", "at least 1"},
		"file in a folder":  {"deps.txt", "a/deps.txt", "not plain file names"},
		"secret":            {"directory:", "secret: [key], directory:", "no dependency file"},
		"no command":        {"install: get,", "", "one line of shell"},
		"lock without use":  {", installWithLock: get --locked", "", "needs installWithLock"},
		"lock not a file":   {"extra: [lock],", "", "must be one of extra"},
		"relative folder":   {"/deps", "deps", "absolute"},
		"format":            {"format: lines", "format: json", "json with keys"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := strings.Replace(goodYAML, tc.old, tc.new, 1)
			_, err := load(fstest.MapFS{"lang1/runtime.yaml": {Data: []byte(content)}})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestEntrypointFile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		runtime, entrypoint    string
		files                  []string
		wantFile, wantFunction string
		wantErr                string
	}{
		"python":           {"python3.11", "handler.handle", []string{"handler.py"}, "handler.py", "handle", ""},
		"folder":           {"python3.11", "src/app.main", []string{"src/app.py"}, "src/app.py", "main", ""},
		"dots in the path": {"python3.11", "v1.2/app.main", []string{"v1.2/app.py"}, "v1.2/app.py", "main", ""},
		"es module":        {"nodejs20", "index.run", []string{"index.mjs"}, "index.mjs", "run", ""},
		"first extension":  {"nodejs20", "a.b", []string{"a.cjs", "a.js"}, "a.js", "b", ""},
		"missing": {"nodejs20", "a.b", []string{"b.js"}, "", "",
			`entrypoint "a.b" needs a file a.js or a.mjs or a.cjs, which the source does not have`},
		"file name":  {"python3.11", "handler.py", []string{"handler.py"}, "", "", "names a file, want <file"},
		"no dot":     {"python3.11", "handler", nil, "", "", "is not <file without extension>.<function>"},
		"empty":      {"python3.11", "", nil, "", "", "is not <file"},
		"no file":    {"python3.11", ".handle", nil, "", "", "is not <file"},
		"no name":    {"python3.11", "handler.", nil, "", "", "is not <file"},
		"bad name":   {"python3.11", "handler.a-b", nil, "", "", "is not <file"},
		"digit":      {"python3.11", "handler.1a", nil, "", "", "is not <file"},
		"absolute":   {"python3.11", "/etc/x.y", nil, "", "", "no plain path"},
		"parent":     {"python3.11", "../x.y", nil, "", "", "no plain path"},
		"hidden up":  {"python3.11", "a/../../x.y", nil, "", "", "no plain path"},
		"backslash":  {"python3.11", `a\b.c`, nil, "", "", "no plain path"},
		"double dot": {"python3.11", "a..b", nil, "", "", "no plain path"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exists := func(path string) bool { return strings.Contains(strings.Join(tc.files, "\n")+"\n", path+"\n") }
			file, function, err := mustLookup(t, tc.runtime).EntrypointFile(tc.entrypoint, exists)
			if file != tc.wantFile || function != tc.wantFunction || (err != nil) != (tc.wantErr != "") {
				t.Errorf("got %q, %q, %v, want %q, %q, %q", file, function, err, tc.wantFile, tc.wantFunction, tc.wantErr)
			}
			if err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("error %q, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestHasDependencies(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		runtime, manifest string
		want              bool
		wantErr           string
	}{
		"requirement":       {"python3.11", "# web\nrequests==2.32.0\n", true, ""},
		"other file":        {"python3.11", "-r more.txt", true, ""},
		"url":               {"python3.11", "https://example.com/a.whl", true, ""},
		"windows line ends": {"python3.11", "\xef\xbb\xbf\r\n \r\nsix\r\n", true, ""},
		"empty":             {"python3.11", "", false, ""},
		"comments only":     {"python3.11", "# nothing\n\n   # more\n", false, ""},
		"options only":      {"python3.11", "--index-url https://example.com/simple\n--pre\n", false, ""},
		"dependencies":      {"nodejs20", `{"dependencies":{"ms":"2"}}`, true, ""},
		"optional":          {"nodejs20", `{"optionalDependencies":{"ms":"2"}}`, true, ""},
		"development only":  {"nodejs20", `{"devDependencies":{"ms":"2"}}`, false, ""},
		"none":              {"nodejs20", `{"type":"module","dependencies":{}}`, false, ""},
		"null":              {"nodejs20", `{"dependencies":null}`, false, ""},
		"byte order mark":   {"nodejs20", "\xef\xbb\xbf{}", false, ""},
		"list of packages": {"nodejs20", `{"dependencies":["ms"]}`, false,
			`package.json: "dependencies" is not an object`},
		"no object": {"nodejs20", `[]`, false,
			"package.json: the content is not a JSON object"},
		"trailing comma": {"nodejs20", "{\n  \"a\": 1,\n}", false,
			"package.json line 3 column 1: not valid JSON: invalid character"},
		"cut off":             {"nodejs20", `{"a":`, false, "package.json line 1 column 5: not valid JSON: unexpected end"},
		"nothing in it":       {"nodejs20", "", false, "package.json line 1 column 1: not valid JSON"},
		"more than one value": {"nodejs20", "{}\n{}", false, "package.json line 2 column 1: not valid JSON"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := mustLookup(t, tc.runtime).HasDependencies([]byte(tc.manifest))
			if got != tc.want || (err != nil) != (tc.wantErr != "") {
				t.Fatalf("got %t, %v, want %t, %q", got, err, tc.want, tc.wantErr)
			}
			var manifestErr *ManifestError
			if err != nil && (!errors.As(err, &manifestErr) || !strings.HasPrefix(err.Error(), tc.wantErr)) {
				t.Errorf("error %q, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		runtime    string
		files, env []string
		full       bool
	}{
		"python":      {runtime: "python3.11", files: []string{"requirements.txt"}},
		"python-conf": {runtime: "python3.11", files: []string{"requirements.txt", "pip.conf"}, env: []string{"PIP_INDEX_URL", "PIP_CERT"}},
		"python-full": {runtime: "python3.11", full: true},
		"node":        {runtime: "nodejs20", files: []string{"package.json"}},
		"node-lock": {runtime: "nodejs20", files: []string{".npmrc", "package-lock.json", "package.json", "other.json"},
			env: []string{"NPM_CONFIG_REGISTRY", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_REGISTRY"}},
		"node-full": {runtime: "nodejs20", files: []string{".npmrc"}, env: []string{"NPM_CONFIG_REGISTRY"}, full: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := mustLookup(t, tc.runtime)
			base := "registry.example/" + r.Image + "@sha256:0123"
			got := r.Dockerfile(base, tc.files, tc.env)
			if tc.full {
				got = r.FullDockerfile(base, tc.files, tc.env)
			}
			golden := filepath.Join("testdata", "Dockerfile."+name)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got), -update writes it:\n%s", golden, diff)
			}
		})
	}
}

// TestFolders checks what the YAML cannot: that the worker finds the same files as the catalogue, that it is small, and
// that the Dockerfile makes the layout that function containers rely on.
func TestFolders(t *testing.T) {
	t.Parallel()
	catalogue, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range catalogue.Names() {
		dockerfile, err := os.ReadFile(filepath.Join(name, "Dockerfile"))
		if err != nil {
			t.Fatal(err)
		}
		// A runtime may use the worker of another version of its language.
		found := workerLine.FindStringSubmatch(string(dockerfile))
		if found == nil {
			t.Fatalf("%s/Dockerfile copies no worker", name)
		}
		path := found[1]
		worker, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(worker), "\n"); lines >= 300 {
			t.Errorf("%s has %d lines, want less than 300", path, lines)
		}
		r, _ := catalogue.Lookup(name)
		for _, extension := range r.Extensions {
			if !strings.Contains(string(worker), extension) {
				t.Errorf("%s does not know the extension %s", path, extension)
			}
		}
		for _, want := range []string{
			"/sless/watchdog", "/sless/" + filepath.Base(path), "ENV SLESS_WORKER=", "HOME=/tmp", "WORKDIR /app",
			"USER " + runUser, `ENTRYPOINT ["/sless/watchdog"]`, r.Image + ":" + r.Version,
		} {
			if !strings.Contains(string(dockerfile), want) {
				t.Errorf("%s/Dockerfile lacks %s", name, want)
			}
		}
	}
}

var workerLine = regexp.MustCompile(`COPY runtimes/(\S+/worker\.\S+) /sless/`)

// The commands of a build that sees the whole source must bear with whatever the source has, and not run what it has not.
func TestInstallFullTakesWhatThereIs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		runtime string
		files   map[string]string
		want    []string
	}{
		"node, nothing": {runtime: "nodejs20"},
		"node, without lock": {runtime: "nodejs20", files: map[string]string{"package.json": "{}"}, want: []string{
			"npm install --include=dev --no-audit --no-fund", "npm run build --if-present", "npm prune --omit=dev --no-audit --no-fund"}},
		"node, with lock": {runtime: "nodejs24", files: map[string]string{"package.json": "{}", "package-lock.json": "{}"},
			want: []string{"npm ci --include=dev --no-audit --no-fund", "npm run build --if-present",
				"npm prune --omit=dev --no-audit --no-fund"}},
		"python, nothing": {runtime: "python3.11", want: []string{"python3 -m compileall"}},
		"python, requirements": {runtime: "python3.11", files: map[string]string{"requirements.txt": "x"},
			want: []string{"pip install -r requirements.txt", "python3 -m compileall"}},
		"python, a project": {runtime: "python3.11",
			files: map[string]string{"requirements.txt": "x", "pyproject.toml": "[build-system]\nrequires = []\n"},
			want:  []string{"pip install -r requirements.txt", "pip install .", "python3 -m compileall"}},
		"python, setup.py": {runtime: "python3.11", files: map[string]string{"setup.py": ""},
			want: []string{"pip install .", "python3 -m compileall"}},
		"python, settings of tools": {runtime: "python3.11", files: map[string]string{"pyproject.toml": "[tool.black]\n"},
			want: []string{"python3 -m compileall"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, bin, said := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "said")
			for file, text := range tc.files {
				writeFile(t, filepath.Join(source, file), text, 0o600)
			}
			for _, program := range []string{"npm", "pip", "python3"} {
				writeFile(t, filepath.Join(bin, program), "#!/bin/sh\necho "+program+" \"$*\" >> "+said+"\n", 0o700)
			}
			command := exec.CommandContext(t.Context(), "/bin/sh", "-ec", mustLookup(t, tc.runtime).Dependencies.InstallFull)
			// A runtime image may have little more than a shell.
			if err := os.Symlink("/bin/cat", filepath.Join(bin, "cat")); err != nil {
				t.Fatal(err)
			}
			command.Dir, command.Env = source, []string{"PATH=" + bin}
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			data, err := os.ReadFile(said)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			got := strings.FieldsFunc(options.ReplaceAllString(string(data), ""), func(r rune) bool { return r == '\n' })
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
		})
	}
}

// options matches the options of pip and compileall, which are not what these tests are about.
var options = regexp.MustCompile(` --(no-cache-dir|no-compile|disable-pip-version-check|target=\S+)| -qq --invalidation-mode \S+ \S+`)

func writeFile(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// TestDockerfilesCopyWhatTheWatchdogIsMadeFrom has Docker see all packages of this module that the watchdog imports.
func TestDockerfilesCopyWhatTheWatchdogIsMadeFrom(t *testing.T) {
	t.Parallel()
	const module = "github.com/naeel/sless/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./watchdog").Output()
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range catalogue.Names() {
		dockerfile, ignored := readLines(t, filepath.Join(name, "Dockerfile")), readLines(t, filepath.Join(name, "Dockerfile.dockerignore"))
		for path := range strings.FieldsSeq(string(out)) {
			folder, ours := strings.CutPrefix(path, module)
			if !ours {
				continue
			}
			if !slices.ContainsFunc(dockerfile, func(line string) bool {
				from, ok := strings.CutPrefix(line, "COPY ")
				from, _, _ = strings.Cut(from, " ")
				return ok && strings.HasPrefix(folder+"/", from+"/")
			}) {
				t.Errorf("%s/Dockerfile does not copy %s", name, folder)
			}
			if !slices.ContainsFunc(ignored, func(line string) bool {
				seen, ok := strings.CutPrefix(line, "!")
				return ok && strings.HasPrefix(folder+"/", seen+"/")
			}) {
				t.Errorf("%s/Dockerfile.dockerignore leaves out %s", name, folder)
			}
		}
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}
