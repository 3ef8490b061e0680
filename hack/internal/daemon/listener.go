// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Listener describes the process that listens on a TCP address ("IP:port") or on its port on another address, such as
// "nginx (process 12)"; it is empty when none is found.
func (p Proc) Listener(addr string) string {
	want, err := netip.ParseAddrPort(addr)
	if err != nil {
		return ""
	}
	inodes := map[string]bool{}
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		data, err := os.ReadFile(filepath.Join(p.Root, table))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if inode, ok := listening(line, want.Port()); ok {
				inodes["socket:["+inode+"]"] = true
			}
		}
	}
	if len(inodes) == 0 {
		return ""
	}
	pids, err := p.PIDs()
	if err != nil {
		return ""
	}
	for _, pid := range pids {
		if p.holds(pid, inodes) {
			exe, err := p.Exe(pid)
			if err != nil {
				exe = "a program"
			}
			return fmt.Sprintf("%s (process %d)", exe, pid)
		}
	}
	return ""
}

// listening gives the socket of a line of /proc/net/tcp when it listens on the port.
func listening(line string, port uint16) (inode string, ok bool) {
	const localAt, stateAt, inodeAt, listen = 1, 3, 9, "0A"
	fields := strings.Fields(line)
	if len(fields) <= inodeAt || fields[stateAt] != listen {
		return "", false
	}
	_, hex, ok := strings.Cut(fields[localAt], ":")
	if !ok {
		return "", false
	}
	number, err := strconv.ParseUint(hex, 16, 16)
	return fields[inodeAt], err == nil && uint16(number) == port
}

func (p Proc) holds(pid int, sockets map[string]bool) bool {
	dir := filepath.Join(p.Root, strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && sockets[target] {
			return true
		}
	}
	return false
}
