// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gateway

import "syscall"

// unusable reports whether an idle connection was closed by its peer, or holds bytes that nobody asked for. It neither
// waits nor takes anything from the connection.
func unusable(conn syscall.RawConn) bool {
	var (
		one [1]byte
		err error
	)
	if controlErr := conn.Control(func(fd uintptr) {
		_, _, err = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	}); controlErr != nil {
		return true // closed by ourselves
	}
	// Only "nothing to read" is what an idle connection looks like: no error means a byte or the end.
	return err != syscall.EAGAIN && err != syscall.EWOULDBLOCK && err != syscall.EINTR
}
