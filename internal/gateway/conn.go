// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

var errPeerClosed = errors.New("the upstream closed the idle connection")

// countedConn is a connection to an upstream. It counts what was written, so that a call that failed can be told from
// one that never began, and it looks for the upstream's goodbye before it sends a call on a connection that was idle.
type countedConn struct {
	net.Conn
	raw     syscall.RawConn // nil when the connection has no file descriptor
	written atomic.Int64
	wasIdle atomic.Bool // the next write begins a call
}

func newCountedConn(conn net.Conn) *countedConn {
	c := &countedConn{Conn: conn}
	if sc, ok := conn.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn() // without it nothing is looked for
	}
	return c
}

// Write sends and counts. It sends nothing on a connection that turns out to be closed. http.Transport notices that
// too, but under load it takes its goroutine a while, and a call that was written in between is lost for good.
func (c *countedConn) Write(p []byte) (int, error) {
	if c.wasIdle.Swap(false) && c.raw != nil && unusable(c.raw) {
		return 0, errPeerClosed
	}
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// CloseWrite passes the end of one direction of an upgraded connection on.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
