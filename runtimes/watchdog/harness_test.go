// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// envRole makes the test binary a watchdog, so that tests run the real program with real signals.
const envRole = "SLESS_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(envRole) == "watchdog" {
		main()
	}
	os.Exit(m.Run())
}

// language is a runtime under test.
type language struct {
	name, worker, extension string
	interpreter             func(testing.TB) string
}

var python = language{name: "python3.11", worker: "worker.py", extension: ".py", interpreter: remember(findPython)}
var node = language{name: "nodejs20", worker: "worker.mjs", extension: ".js", interpreter: remember(findNode)}

// remember runs an expensive search once.
func remember(find func() (string, string)) func(testing.TB) string {
	once := sync.OnceValues(find)
	return func(t testing.TB) string {
		path, problem := once()
		if problem != "" {
			t.Skip(problem)
		}
		return path
	}
}

// findPython looks behind wrappers that choose a version, because they cost time at each start.
func findPython() (string, string) {
	script := "import sys; assert sys.version_info >= (3, 11); print(sys.executable)"
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if out, err := exec.Command(name, "-c", script).Output(); err == nil {
			return strings.TrimSpace(string(out)) + " -u", ""
		}
	}
	return "", "needs python3 3.11 or newer in PATH"
}

func findNode() (string, string) {
	out, err := exec.Command("node", "-p", "process.execPath").Output()
	if err != nil {
		return "", "needs node 20 or newer in PATH"
	}
	return strings.TrimSpace(string(out)), ""
}

// eachLanguage runs a test for every language.
func eachLanguage(t *testing.T, test func(*testing.T, language)) {
	t.Helper()
	for _, l := range []language{python, node} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

// program is a function container without the container.
type program struct {
	testing.TB
	language
	appDir, notes, terminationLog string
	entrypoint                    string
	env                           []string

	cmd            *exec.Cmd
	stdout, stderr syncBuffer
	url, adminURL  string
	exited         chan struct{}
}

// newProgram prepares the program with the handler of testdata, or with other files if there are any.
func newProgram(t testing.TB, l language, files map[string]string) *program {
	t.Helper()
	p := &program{TB: t, language: l, appDir: t.TempDir(), notes: t.TempDir(), entrypoint: "handler.handle"}
	p.terminationLog = filepath.Join(t.TempDir(), "termination-log")
	p.write(p.terminationLog, "")
	if files == nil {
		content, err := os.ReadFile(filepath.Join("testdata", l.name, "handler"+l.extension))
		if err != nil {
			t.Fatal(err)
		}
		files = map[string]string{"handler" + l.extension: string(content)}
	}
	for name, content := range files {
		path := filepath.Join(p.appDir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		p.write(path, content)
	}
	return p
}

func (p *program) write(path, content string) {
	p.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		p.Fatal(err)
	}
}

// start starts a command of the watchdog.
func (p *program) start(args ...string) {
	p.Helper()
	worker, err := filepath.Abs(filepath.Join("..", p.name, p.worker))
	if err != nil {
		p.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	flags := append([]string{args[0], "--termination-log", p.terminationLog, "--socket-dir", p.notes}, args[1:]...)
	p.cmd = exec.Command(self, flags...)
	p.cmd.Env = append(os.Environ(), envRole+"=watchdog", envWorker+"="+p.interpreter(p)+" "+worker,
		envAppDir+"="+p.appDir, envEntrypoint+"="+p.entrypoint, "NOTES="+p.notes, "PYTHONDONTWRITEBYTECODE=1")
	p.cmd.Env = append(p.cmd.Env, p.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.exited = make(chan struct{})
	if err := p.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	p.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.exited:
		case <-time.After(20 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.exited
			p.Error("the watchdog did not end on SIGTERM")
		}
		if p.Failed() {
			p.Logf("stdout: %s\nstderr: %s", p.stdout.String(), p.stderr.String())
		}
	})
}

var listening = regexp.MustCompile(`msg=Listening server=(\w+) address=\[::\]:(\d+)`)

// serve starts the server and waits until it is ready.
func (p *program) serve(args ...string) *program {
	p.Helper()
	p.start(append([]string{"serve", "--port", "0", "--admin-port", "0", "--drain-delay", "0"}, args...)...)
	p.eventually("both ports", func() bool {
		found := listening.FindAllStringSubmatch(p.stderr.String(), -1)
		for _, match := range found {
			if match[1] == "admin" {
				p.adminURL = "http://127.0.0.1:" + match[2]
			} else {
				p.url = "http://127.0.0.1:" + match[2]
			}
		}
		return len(found) == 2
	})
	p.eventually("readiness", func() bool { return p.ready() == http.StatusOK })
	return p
}

func (p *program) ready() int {
	response, err := http.Get(p.adminURL + "/readyz")
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// eventually waits for a condition that needs no more than a moment.
func (p *program) eventually(what string, met func() bool) {
	p.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if met() {
			return
		}
	}
	p.Fatalf("no %s in time; stderr: %s", what, p.stderr.String())
}

// wait returns the exit code and the termination log.
func (p *program) wait() (int, string) {
	p.Helper()
	select {
	case <-p.exited:
	case <-time.After(30 * time.Second):
		p.Fatalf("the watchdog did not end; stderr: %s", p.stderr.String())
	}
	message, err := os.ReadFile(p.terminationLog)
	if err != nil {
		p.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode(), string(message)
}

// noted returns what the handler wrote under a name.
func (p *program) noted(name string) string {
	content, _ := os.ReadFile(filepath.Join(p.notes, name))
	return string(content)
}

func (p *program) open(gate string) { p.write(filepath.Join(p.notes, gate), "x") }

func (p *program) called(times int) {
	p.Helper()
	p.eventually("call of the handler", func() bool { return len(p.noted("called")) == times })
}

// reply is an answer as a caller sees it.
type reply struct {
	code   int
	header http.Header
	body   string
	err    error
}

func (p *program) get(path string) reply { return p.do(context.Background(), "GET", path, nil, nil) }

func (p *program) post(path, contentType string, body []byte) reply {
	return p.do(context.Background(), "POST", path, http.Header{"Content-Type": {contentType}}, bytes.NewReader(body))
}

func (p *program) do(ctx context.Context, method, path string, header http.Header, body io.Reader) reply {
	request, err := http.NewRequestWithContext(ctx, method, p.url+path, body)
	if err != nil {
		return reply{err: err}
	}
	maps.Copy(request.Header, header)
	response, err := noRedirects.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	return reply{code: response.StatusCode, header: response.Header, body: string(content), err: err}
}

var noRedirects = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// background makes a call whose reply is wanted later.
func (p *program) background(path string) <-chan reply {
	done := make(chan reply, 1)
	go func() { done <- p.get(path) }()
	return done
}

// syncBuffer is a buffer that a process writes while a test reads.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func mustRead(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
