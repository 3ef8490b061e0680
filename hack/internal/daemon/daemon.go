// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Variables that mark a process as one of a set. The environment of a process cannot be lost as a file can.
const (
	envSet  = "SLESS_CLUSTER_SET"
	envSpec = "SLESS_CLUSTER_SPEC"
)

const (
	// pollEvery is how often a stopping process is looked at.
	pollEvery = 20 * time.Millisecond
	// killWait is how long the kernel may take to end a killed process.
	killWait = 10 * time.Second
)

// Spec says how a part is run.
type Spec struct {
	// Name is the name of the part, a file name.
	Name string
	// Path is the program, Args its arguments without the program's name.
	Path string
	Args []string
	// Env is the whole environment, without the marks.
	Env []string
	// Inputs are files that the part reads when it starts: when one has changed, the part is started again.
	Inputs []string
}

// Set is a group of daemons that share a folder.
type Set struct {
	// Name tells this set from others on the machine.
	Name string
	// PIDDir holds a pid file for each part, LogDir a log file.
	PIDDir, LogDir string
	// Proc is the process table.
	Proc Proc
}

// record is the content of a pid file.
type record struct {
	Identity
	// Spec is the hash of how the part was started.
	Spec string `json:"spec"`
}

// LogFile gives the path of a part's log.
func (s Set) LogFile(part string) string { return filepath.Join(s.LogDir, part+".log") }

func (s Set) pidFile(part string) string { return filepath.Join(s.PIDDir, part+".json") }

// Find gives the process of a part when it runs: the one of the pid file, else one that carries the marks.
func (s Set) Find(part string) (Identity, bool) {
	r, ok := s.find(part)
	return r.Identity, ok
}

func (s Set) find(part string) (record, bool) {
	if data, err := os.ReadFile(s.pidFile(part)); err == nil {
		var r record
		if json.Unmarshal(data, &r) == nil && s.Proc.Alive(r.Identity) {
			return r, true
		}
	}
	if marked := s.marked(part); len(marked) > 0 {
		return marked[0], true
	}
	return record{}, false
}

// Marked lists the processes of a program that are parts of the set or were started by one.
func (s Set) Marked(exe string) []Identity {
	var ids []Identity
	for _, r := range s.marked(exe) {
		ids = append(ids, r.Identity)
	}
	return ids
}

func (s Set) marked(program string) []record {
	pids, err := s.Proc.PIDs()
	if err != nil {
		return nil
	}
	var found []record
	for _, pid := range pids {
		// The program is looked at first: no other environments are read than those of possible parts. Children of a
		// part carry its marks too, but run other programs.
		if exe, err := s.Proc.Exe(pid); err != nil || exe != program {
			continue
		}
		if set, err := s.Proc.Env(pid, envSet); err != nil || set != s.Name {
			continue
		}
		spec, err := s.Proc.Env(pid, envSpec)
		if err != nil {
			continue
		}
		if id, ok := s.Proc.Identify(pid); ok {
			found = append(found, record{Identity: id, Spec: spec})
		}
	}
	return found
}

// hash changes with everything that a running process took in when it started.
func (spec Spec) hash() (string, error) {
	h := sha256.New()
	for _, list := range [][]string{{spec.Path}, spec.Args, spec.Env} {
		data, err := json.Marshal(list)
		if err != nil {
			return "", err
		}
		_, _ = h.Write(data)
	}
	for _, path := range spec.Inputs {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(data)
		_, _ = h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// Ensure makes sure that the part runs as the spec says: it starts it when it does not run, and starts it again when it
// runs in another way. It gives whether it started anything. The started process belongs to a session of its own and
// gets no signal from the terminal.
func (s Set) Ensure(ctx context.Context, spec Spec, grace time.Duration) (started bool, err error) {
	if filepath.Base(spec.Path) != spec.Name {
		return false, fmt.Errorf("part %s must be a program of the same name, not %s", spec.Name, spec.Path)
	}
	hash, err := spec.hash()
	if err != nil {
		return false, err
	}
	if r, ok := s.find(spec.Name); ok {
		if r.Spec == hash {
			return false, s.record(spec.Name, r)
		}
		if err := s.Stop(ctx, spec.Name, grace); err != nil {
			return false, err
		}
	}
	return true, s.start(spec, hash)
}

func (s Set) start(spec Spec, hash string) error {
	if err := os.MkdirAll(s.LogDir, 0o700); err != nil {
		return err
	}
	log, err := openLog(s.LogFile(spec.Name))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = "/"
	cmd.Env = append(slices.Clone(spec.Env), envSet+"="+s.Name, envSpec+"="+hash)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	pid := cmd.Process.Pid
	// Reap it, should it end while this command runs; later it is a child of the init process.
	go func() { _ = cmd.Wait() }()
	id, ok := s.Proc.Identify(pid)
	if !ok {
		return fmt.Errorf("%s stopped at once:\n%s", spec.Name, s.LogTail(spec.Name))
	}
	return s.record(spec.Name, record{Identity: id, Spec: hash})
}

func (s Set) record(part string, r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// Everybody may see what runs.
	if err := os.MkdirAll(s.PIDDir, 0o755); err != nil {
		return err
	}
	tmp := s.pidFile(part) + ".tmp"
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, s.pidFile(part))
}

// Stop ends a part: SIGTERM, and SIGKILL when it still runs after the grace period. A part that does not run is no
// error. A part may have been started twice by two commands of which one was killed, so it looks until none is left.
func (s Set) Stop(ctx context.Context, part string, grace time.Duration) error {
	for {
		id, ok := s.Find(part)
		if !ok {
			break
		}
		if err := s.Proc.Terminate(ctx, id, grace); err != nil {
			return fmt.Errorf("stopping %s: %w", part, err)
		}
	}
	err := os.Remove(s.pidFile(part))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Terminate ends one process, see Stop. With no grace it is killed at once.
func (p Proc) Terminate(ctx context.Context, id Identity, grace time.Duration) error {
	// The handle is taken before the identity is checked: it keeps pointing at the process that was checked, even
	// when that one ends and its number is used again.
	process, err := os.FindProcess(id.PID)
	if err != nil || !p.Alive(id) {
		return nil
	}
	defer func() { _ = process.Release() }()
	if grace > 0 {
		if err := process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		gone, err := p.waitGone(ctx, id, grace)
		if err != nil || gone {
			return err
		}
	}
	if err := process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	gone, err := p.waitGone(ctx, id, killWait)
	if err == nil && !gone {
		err = fmt.Errorf("process %d does not end, not even when killed", id.PID)
	}
	return err
}

func (p Proc) waitGone(ctx context.Context, id Identity, limit time.Duration) (bool, error) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if !p.Alive(id) {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-deadline.C:
			return false, nil
		case <-ticker.C:
		}
	}
}

const (
	// maxLog is the size above which a log is begun anew when its part is started; one older log is kept.
	maxLog = 32 << 20
	// tailBytes is how much of a log an error shows at most, tailLines how many lines.
	tailBytes = 8 << 10
	tailLines = 15
)

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// LogTail gives the last lines of a part's log, for an error message.
func (s Set) LogTail(part string) string {
	f, err := os.Open(s.LogFile(part))
	if err != nil {
		return "(no log)"
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = f.Seek(-tailBytes, io.SeekEnd)
	}
	data := make([]byte, tailBytes)
	n, _ := f.Read(data)
	lines := strings.Split(strings.TrimSpace(string(data[:n])), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return strings.Join(lines, "\n")
}
