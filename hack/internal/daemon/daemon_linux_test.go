// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tests start real processes: the test program itself under another name, told by its environment what to do.
const envRole = "SLESS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "":
		os.Exit(m.Run())
	case "fail":
		_, _ = os.Stderr.WriteString("no such flag\n")
		os.Exit(1)
	default:
		// Long enough for any test, short enough not to stay for ever should a test be killed.
		time.Sleep(time.Minute)
	}
}

func newSet(t *testing.T) Set {
	t.Helper()
	dir := t.TempDir()
	s := Set{Name: dir, PIDDir: filepath.Join(dir, "pids"), LogDir: filepath.Join(dir, "logs"), Proc: Proc{Root: "/proc"}}
	t.Cleanup(func() {
		if err := s.Stop(t.Context(), "part", 0); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		for _, id := range s.Marked("part") {
			if p, err := os.FindProcess(id.PID); err == nil {
				_ = p.Kill()
			}
		}
	})
	return s
}

// part is a program called "part" that does what its role says.
func part(t *testing.T, role string) Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "part")
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	return Spec{Name: "part", Path: path, Env: []string{envRole + "=" + role}}
}

func ensure(t *testing.T, s Set, spec Spec, wantStarted bool) Identity {
	t.Helper()
	started, err := s.Ensure(t.Context(), spec, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if started != wantStarted {
		t.Errorf("started: %v, want %v", started, wantStarted)
	}
	id, ok := s.Find(spec.Name)
	if !ok {
		t.Fatal("the part does not run")
	}
	return id
}

func TestEnsureAndStop(t *testing.T) {
	t.Parallel()
	s, spec := newSet(t), part(t, "wait")
	input := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(input, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec.Inputs = []string{input}
	first := ensure(t, s, spec, true)
	if again := ensure(t, s, spec, false); again != first {
		t.Errorf("found %v, want %v", again, first)
	}

	// A changed file and changed arguments start it again.
	if err := os.WriteFile(input, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := ensure(t, s, spec, true)
	if second == first || s.Proc.Alive(first) {
		t.Error("a changed input did not replace the process")
	}
	spec.Args = []string{"-test.v"}
	third := ensure(t, s, spec, true)

	if err := s.Stop(t.Context(), "part", time.Second); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Find("part"); ok || s.Proc.Alive(third) {
		t.Error("the part still runs")
	}
	if err := s.Stop(t.Context(), "part", time.Second); err != nil {
		t.Errorf("stopping what does not run: %v", err)
	}
}

func TestFindWithoutPIDFile(t *testing.T) {
	t.Parallel()
	s, spec := newSet(t), part(t, "wait")
	first := ensure(t, s, spec, true)
	if err := os.Remove(s.pidFile("part")); err != nil {
		t.Fatal(err)
	}
	if again := ensure(t, s, spec, false); again != first {
		t.Errorf("found %v, want %v", again, first)
	}
	if _, err := os.Stat(s.pidFile("part")); err != nil {
		t.Error("the pid file was not written again")
	}
	other := s
	other.Name, other.PIDDir = "other", t.TempDir()
	if id, ok := other.Find("part"); ok {
		t.Errorf("found %v of another set", id)
	}
}

func TestFindAfterTheProcessEnded(t *testing.T) {
	t.Parallel()
	s, spec := newSet(t), part(t, "wait")
	first := ensure(t, s, spec, true)
	if err := s.Proc.Terminate(t.Context(), first, 0); err != nil {
		t.Fatal(err)
	}
	if second := ensure(t, s, spec, true); second == first {
		t.Error("the ended process is taken for running")
	}
}

// TestStaleFileNamesAnotherProcess must not end the process that got the number.
func TestStaleFileNamesAnotherProcess(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	bystander := exec.Command("sleep", "60")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = bystander.Process.Kill()
		_ = bystander.Wait()
	}()
	id, ok := s.Proc.Identify(bystander.Process.Pid)
	if !ok {
		t.Fatal("the process is not there")
	}
	stale := id
	stale.Start--
	if err := s.record("part", record{Identity: stale}); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context(), "part", 0); err != nil {
		t.Fatal(err)
	}
	if !s.Proc.Alive(id) {
		t.Error("a process that is none of ours was ended")
	}
}

func TestLogTail(t *testing.T) {
	t.Parallel()
	s, spec := newSet(t), part(t, "fail")
	// It may end before it is looked at or after.
	_, err := s.Ensure(t.Context(), spec, 0)
	for range 500 {
		if _, ok := s.Find("part"); !ok {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil && !strings.Contains(err.Error(), "stopped at once") {
		t.Error(err)
	}
	if tail := s.LogTail("part"); !strings.Contains(tail, "no such flag") {
		t.Errorf("the log's end is %q", tail)
	}
	if tail := s.LogTail("other"); tail != "(no log)" {
		t.Errorf("the log's end of a part that never ran is %q", tail)
	}
}

func TestEnsureWantsTheNameOfTheProgram(t *testing.T) {
	t.Parallel()
	_, err := newSet(t).Ensure(t.Context(), Spec{Name: "part", Path: "/bin/true"}, 0)
	if err == nil || !strings.Contains(err.Error(), "same name") {
		t.Errorf("error is %v", err)
	}
}

func TestListener(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if got := (Proc{Root: "/proc"}).Listener(l.Addr().String()); !strings.Contains(got, "daemon.test (process") {
		t.Errorf("listener is %q", got)
	}
	if got := (Proc{Root: "/proc"}).Listener("nonsense"); got != "" {
		t.Errorf("listener of no address is %q", got)
	}
}
