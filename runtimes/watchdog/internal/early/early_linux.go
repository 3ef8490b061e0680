// SPDX-License-Identifier: Apache-2.0

// Package early opens the port of the readiness probe before anything else of the program has started. The kubelet asks as
// soon as the container runs, within milliseconds; who is refused then is asked again a second later. A connection that
// comes before the program is done with starting waits in the kernel.
//
// The package imports next to nothing, so that the Go runtime initialises it before the packages that take time.
package early

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	command     = "serve"
	flag        = "--admin-port="
	defaultPort = 8081
	backlog     = 128
)

// opened is done while packages are initialised.
var opened, openedPort = open(os.Args)

// Take returns the descriptor of the socket that listens on a port. It reports false when none was opened, or another: then
// the caller has to listen itself, and learns why that fails.
func Take(port int) (fd int, ok bool) {
	if opened < 0 || port != openedPort {
		return -1, false
	}
	fd, opened = opened, -1
	return fd, true
}

func open(args []string) (fd, port int) {
	if len(args) < 2 || args[1] != command {
		return -1, 0
	}
	port = defaultPort
	for _, arg := range args[2:] {
		if value, ok := strings.CutPrefix(arg, flag); ok {
			port, _ = strconv.Atoi(value)
		}
	}
	if port <= 0 || port > 1<<16-1 {
		return -1, 0
	}
	for _, address := range []syscall.Sockaddr{&syscall.SockaddrInet6{Port: port}, &syscall.SockaddrInet4{Port: port}} {
		if fd := listen(address); fd >= 0 {
			return fd, port
		}
	}
	return -1, 0
}

// listen returns a socket that listens on all interfaces, by both families where there are both, or -1.
func listen(address syscall.Sockaddr) int {
	family := syscall.AF_INET
	if _, ok := address.(*syscall.SockaddrInet6); ok {
		family = syscall.AF_INET6
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1
	}
	if family == syscall.AF_INET6 {
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0)
	}
	for _, step := range []func() error{
		func() error { return err },
		func() error { return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) },
		func() error { return syscall.Bind(fd, address) },
		func() error { return syscall.Listen(fd, backlog) },
	} {
		if step() != nil {
			_ = syscall.Close(fd)
			return -1
		}
	}
	return fd
}
