// SPDX-License-Identifier: Apache-2.0

// Package daemon starts programs that outlive the command that started them, finds them again, and stops them.
//
// A process is known by more than its number: numbers are used again, so a pid file also holds the time the process
// started and the boot of the machine in which it did. A process whose pid file is missing (the command was killed
// between starting it and writing the file) is found by a mark in its environment.
package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Proc reads the process table under Root, which is /proc outside of tests.
type Proc struct{ Root string }

// Identity tells one process from every other one that had or will have its number.
type Identity struct {
	PID int `json:"pid"`
	// Start is the start time of the process in clock ticks since the machine started.
	Start uint64 `json:"start"`
	// Boot names the boot of the machine.
	Boot string `json:"boot"`
}

// Boot gives a name that changes with every start of the machine.
func (p Proc) Boot() (string, error) {
	data, err := os.ReadFile(filepath.Join(p.Root, "sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(data)), err
}

// Identify gives the identity of the process that has the number now. A process that has ended and only waits for its
// parent counts as gone.
func (p Proc) Identify(pid int) (Identity, bool) {
	start, state, err := p.stat(pid)
	if err != nil || state == "Z" || state == "X" {
		return Identity{}, false
	}
	boot, err := p.Boot()
	if err != nil {
		return Identity{}, false
	}
	return Identity{PID: pid, Start: start, Boot: boot}, true
}

// Alive says whether exactly this process still runs.
func (p Proc) Alive(id Identity) bool {
	now, ok := p.Identify(id.PID)
	return ok && now == id
}

// stat reads the start time and the state of a process.
func (p Proc) stat(pid int) (start uint64, state string, err error) {
	data, err := os.ReadFile(filepath.Join(p.Root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, "", err
	}
	return parseStat(string(data))
}

// parseStat reads a line of /proc/PID/stat. The program's name stands in brackets and may hold anything, brackets and
// spaces too, so the fields are counted from the last bracket.
func parseStat(line string) (start uint64, state string, err error) {
	end := strings.LastIndexByte(line, ')')
	fields := strings.Fields(line[end+1:])
	// State is field 3 of the whole line and the start time field 22; those after the bracket begin with field 3.
	const stateAt, startAt = 0, 19
	if end < 0 || len(fields) <= startAt {
		return 0, "", errors.New("malformed process status")
	}
	start, err = strconv.ParseUint(fields[startAt], 10, 64)
	return start, fields[stateAt], err
}

// Exe gives the base name of the program that a process runs, also when its file was replaced since.
func (p Proc) Exe(pid int) (string, error) {
	path, err := os.Readlink(filepath.Join(p.Root, strconv.Itoa(pid), "exe"))
	return filepath.Base(strings.TrimSuffix(path, " (deleted)")), err
}

// Args gives the command line of a process.
func (p Proc) Args(pid int) ([]string, error) {
	return p.list(pid, "cmdline")
}

// Env gives the value of a variable in the environment with which a process was started.
func (p Proc) Env(pid int, name string) (string, error) {
	env, err := p.list(pid, "environ")
	if err != nil {
		return "", err
	}
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("process %d has no %s", pid, name)
}

func (p Proc) list(pid int, file string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(p.Root, strconv.Itoa(pid), file))
	if err != nil {
		return nil, err
	}
	var list []string
	for item := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte{0}), []byte{0}) {
		list = append(list, string(item))
	}
	return list, nil
}

// PIDs lists all processes, in order.
func (p Proc) PIDs() ([]int, error) {
	entries, err := os.ReadDir(p.Root)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}
