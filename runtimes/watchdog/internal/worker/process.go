// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// maxStatusLine bounds a line on the status pipe.
	maxStatusLine = 64 << 10
	// statusGrace is how long the last words of a dead worker are waited for.
	statusGrace = 200 * time.Millisecond
)

// Config says how to start a worker.
type Config struct {
	// Command is the worker's command line.
	Command []string
	// AppDir holds the user's code; the worker runs in it.
	AppDir string
	// SocketDir is a writable folder for unix sockets.
	SocketDir string
	// Entrypoint is <file without extension>.<function>.
	Entrypoint                      string
	FunctionName, FunctionNamespace string
	// LoadTimeout bounds the loading of the handler.
	LoadTimeout time.Duration
	// Stdout and Stderr get the output of the user's code. An *os.File is handed to the worker itself.
	Stdout, Stderr io.Writer
	// Reaper, if set, is told of the child so that it leaves it alone.
	Reaper *Reaper
}

// LoadError says that the handler could not be loaded. File is relative to the code folder; Line is 0 if unknown.
type LoadError struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Message string `json:"error"`
}

func (e *LoadError) Error() string { return locate(e.File, e.Line) + e.Message }

func locate(file string, line int) string {
	switch {
	case file == "":
		return ""
	case line == 0:
		return file + ": "
	}
	return file + " line " + strconv.Itoa(line) + ": "
}

// CrashError says how a worker ended that should have lived.
type CrashError struct {
	State string // such as "exit status 3" or "signal: killed"
	Cause string // the worker's own last words, with file and line, if it had any
}

func (e *CrashError) Error() string {
	text := "the function's process ended with " + e.State
	if e.Cause != "" {
		return text + " (" + e.Cause + ")"
	}
	if e.Killed() {
		return text + ", as the system does when memory runs out"
	}
	return text
}

// Killed tells whether the worker was killed from outside.
func (e *CrashError) Killed() bool { return e.State == "signal: killed" }

// status is a line that the worker writes to its status pipe: once when it has loaded, or failed to load, the handler,
// and once more if it crashes and can tell why.
type status struct {
	OK    bool   `json:"ok"`
	Crash string `json:"crash"`
	LoadError
}

// Process is a running worker with a loaded handler.
type Process struct {
	cmd   *exec.Cmd
	conns connPool
	// done is closed after the worker has ended; crash is set before that.
	done  chan struct{}
	crash *CrashError
	// loaded gets the first status; lastWords the cause of a crash.
	loaded    chan status
	lastWords atomic.Pointer[string]

	killOnce sync.Once
}

var sequence atomic.Uint64

// Start starts a worker and waits until it has loaded the handler. A handler that cannot be loaded is a *LoadError.
// The end of ctx stops the wait and the worker; a worker that has loaded is not bound to ctx any more.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	socket := filepath.Join(cfg.SocketDir, fmt.Sprintf("sless-%d-%d.sock", os.Getpid(), sequence.Add(1)))
	_ = os.Remove(socket)
	p := &Process{done: make(chan struct{}), loaded: make(chan status, 1), conns: connPool{path: socket}}
	if err := p.start(cfg, socket); err != nil {
		return nil, &LoadError{Message: fmt.Sprintf("cannot start the language worker: %v", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.LoadTimeout)
	defer cancel()
	select {
	case s := <-p.loaded:
		if s.OK {
			return p, nil
		}
		p.Stop(statusGrace)
		return nil, &s.LoadError
	case <-p.done:
		select {
		case s := <-p.loaded: // a load error is followed by the end of the worker
			return nil, &s.LoadError
		default:
			return nil, &LoadError{Message: "while loading the handler, " + p.crash.Error()}
		}
	case <-ctx.Done():
		p.Kill()
		<-p.done
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, &LoadError{Message: fmt.Sprintf("loading the handler took longer than %s", cfg.LoadTimeout)}
		}
		return nil, ctx.Err()
	}
}

func (p *Process) start(cfg Config, socket string) error {
	if len(cfg.Command) == 0 {
		return errors.New("no command is set")
	}
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return err
	}
	p.cmd = exec.Command(cfg.Command[0], cfg.Command[1:]...) //nolint:gosec // the command is part of the image
	p.cmd.Dir = cfg.AppDir
	p.cmd.Stdout, p.cmd.Stderr = cfg.Stdout, cfg.Stderr
	p.cmd.ExtraFiles = []*os.File{statusW} // descriptor 3
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = statusGrace // a grandchild may hold the output open
	p.cmd.Env = append(os.Environ(),
		"SLESS_SOCKET="+socket, "SLESS_APP_DIR="+cfg.AppDir, "SLESS_ENTRYPOINT="+cfg.Entrypoint,
		"SLESS_FUNCTION_NAME="+cfg.FunctionName, "SLESS_FUNCTION_NAMESPACE="+cfg.FunctionNamespace)
	err = cfg.Reaper.start(p.cmd)
	_ = statusW.Close()
	if err != nil {
		_ = statusR.Close()
		return err
	}
	read := make(chan struct{})
	go p.readStatus(statusR, read)
	go p.wait(cfg.Reaper, statusR, read)
	return nil
}

// readStatus passes on what the worker says on its status pipe.
func (p *Process) readStatus(r io.Reader, read chan<- struct{}) {
	defer close(read)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxStatusLine)
	for first := true; lines.Scan(); first = false {
		var s status
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			s.Message = fmt.Sprintf("the worker's status is not JSON: %v", err)
		}
		if first {
			p.loaded <- s
			continue
		}
		words := locate(s.File, s.Line) + s.Crash
		p.lastWords.Store(&words)
	}
}

func (p *Process) wait(reaper *Reaper, statusR *os.File, read <-chan struct{}) {
	_ = p.cmd.Wait()
	reaper.ended(p.cmd)
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // children that outlived the worker
	_ = statusR.SetReadDeadline(time.Now().Add(statusGrace))
	<-read
	_ = statusR.Close()
	_ = os.Remove(p.conns.path)
	p.crash = &CrashError{State: p.cmd.ProcessState.String()}
	if words := p.lastWords.Load(); words != nil {
		p.crash.Cause = *words
	}
	p.conns.close()
	close(p.done)
}

// Call sends one call to the handler and returns as soon as its answer has begun. The end of ctx abandons the call but
// does not stop the handler: cancel asks it to stop, Kill makes it. A nil body means none.
func (p *Process) Call(ctx context.Context, head *Head, body io.Reader) (*Answer, error) {
	return p.conns.call(ctx, head, body)
}

// Cancel asks the handler to give up a call whose caller has gone away. The call still ends with an answer.
func (p *Process) Cancel(number uint64) {
	c, err := p.conns.get(context.Background())
	if err != nil {
		return
	}
	if c.cancel(number) != nil {
		_ = c.Close()
		return
	}
	p.conns.put(c)
}

// Done is closed once the worker has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Crash tells how the worker ended. Valid after Done.
func (p *Process) Crash() *CrashError { return p.crash }

// Kill ends the worker and its children at once.
func (p *Process) Kill() {
	p.killOnce.Do(func() {
		select {
		case <-p.done:
		default:
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
	})
}

// Stop asks the worker to end and kills it after grace. It returns when the worker has ended.
func (p *Process) Stop(grace time.Duration) {
	select {
	case <-p.done:
		return
	default:
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
		<-p.done
	}
}
