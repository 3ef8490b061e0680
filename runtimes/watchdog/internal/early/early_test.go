//go:build linux

// SPDX-License-Identifier: Apache-2.0

package early

import (
	"fmt"
	"net"
	"syscall"
	"testing"
)

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	address, _ := listener.Addr().(*net.TCPAddr)
	return address.Port
}

func TestOpenAcceptsBeforeAnybodyDoes(t *testing.T) {
	port := freePort(t)
	fd, got := open([]string{"watchdog", "serve", "--x=y", fmt.Sprintf("--admin-port=%d", port)})
	if fd < 0 || got != port {
		t.Fatalf("descriptor %d, port %d, want %d", fd, got, port)
	}
	defer func() { _ = syscall.Close(fd) }()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if second, _ := open([]string{"watchdog", "serve", fmt.Sprintf("--admin-port=%d", port)}); second >= 0 {
		t.Error("a port that is taken was opened again")
	}
}

func TestOpenIsForServeAlone(t *testing.T) {
	for _, args := range [][]string{
		nil, {"watchdog"}, {"watchdog", "run"}, {"watchdog", "-h"}, {"watchdog", "serve", "--admin-port=0"},
		{"watchdog", "serve", "--admin-port=x"},
	} {
		if fd, _ := open(args); fd >= 0 {
			t.Errorf("%q opened a port", args)
			_ = syscall.Close(fd)
		}
	}
}

func TestTakeGivesTheSocketOnce(t *testing.T) {
	opened, openedPort = 7, 8081
	if _, ok := Take(9); ok {
		t.Error("another port was given")
	}
	if fd, ok := Take(8081); fd != 7 || !ok {
		t.Errorf("got %d, %v", fd, ok)
	}
	if _, ok := Take(8081); ok {
		t.Error("the socket was given twice")
	}
}
