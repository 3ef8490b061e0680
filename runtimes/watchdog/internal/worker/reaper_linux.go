// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reaper collects orphans: processes that user code left behind and that the kernel hands to PID 1. It never collects a
// child that was started through it, because exec.Cmd.Wait needs the exit status of that one. A nil Reaper only starts.
type Reaper struct {
	mu       sync.Mutex
	children map[int]bool
	wake     chan os.Signal
}

// NewReaper makes this process the one that orphans are handed to, and collects them as long as the process lives.
func NewReaper() (*Reaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	r := &Reaper{children: map[int]bool{}, wake: make(chan os.Signal, 1)}
	signal.Notify(r.wake, unix.SIGCHLD)
	go func() {
		for range r.wake {
			for r.reapOne() {
			}
		}
	}()
	return r, nil
}

// start starts a child. The lock makes sure that the reaper cannot see it before it is on the list.
func (r *Reaper) start(cmd *exec.Cmd) error {
	if r == nil {
		return cmd.Start()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.children[cmd.Process.Pid] = true
	return nil
}

// ended says that cmd.Wait has collected a child. Orphans that ended behind it can be seen now.
func (r *Reaper) ended(cmd *exec.Cmd) {
	if r == nil {
		return
	}
	r.mu.Lock()
	delete(r.children, cmd.Process.Pid)
	r.mu.Unlock()
	select {
	case r.wake <- unix.SIGCHLD:
	default:
	}
}

// childInfo is the head of siginfo_t as waitid fills it on 64-bit Linux.
type childInfo struct {
	_   [3]int32 // signo, errno, code
	_   int32    // padding
	pid int32
}

// reapOne looks at one ended child without collecting it, and collects it if it is an orphan.
func (r *Reaper) reapOne() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	pid := int((*childInfo)(unsafe.Pointer(&info)).pid) //nolint:gosec // the layout is the kernel's
	if err != nil || pid == 0 || r.children[pid] {
		return false
	}
	_, err = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return err == nil
}
