// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
)

// facts is what the checks before Up look at.
type facts struct {
	goos string
	root bool
	// packager is whether the machine installs packages with apt-get.
	packager bool
	// missing are the Debian packages that would have to be installed.
	missing []string
	// checkout is this checkout, owner the one that the state folder belongs to ("" for none).
	checkout string
	owner    string
	// ownerGone is whether the owner's folder has been deleted, or no part of its cluster runs any more.
	ownerGone bool
	// taken are needed ports that something else listens on.
	taken []takenPort
	// conflict names a network interface that has an address of the cluster's ranges.
	conflict string
}

type takenPort struct {
	port
	// by describes who has it, "" when unknown.
	by string
}

const elsewhere = "or use a cluster you have with CLUSTER=current"

// checkMachine gives one sentence when the machine cannot have a cluster at all.
func (f facts) checkMachine() error {
	switch {
	case f.goos != "linux":
		return fmt.Errorf("the local cluster needs Linux and this is %s: use a Linux machine, %s", f.goos, elsewhere)
	case !f.root:
		return fmt.Errorf("the local cluster needs root: run this as root, %s", elsewhere)
	}
	return nil
}

// checkOwner gives one sentence when the state folder belongs to somebody else. What a checkout that has been deleted, or
// a cluster of which nothing runs, has left behind may be removed from everywhere.
func (f facts) checkOwner() error {
	if f.owner == "" || f.owner == f.checkout || f.ownerGone {
		return nil
	}
	return fmt.Errorf("the cluster in %s belongs to the checkout %s: run `make cluster-down` there first",
		StateDir, f.owner)
}

// checkUp gives one sentence about the first thing that keeps the cluster from coming up.
func (f facts) checkUp() error {
	if err := f.checkMachine(); err != nil {
		return err
	}
	if err := f.checkOwner(); err != nil {
		return err
	}
	switch {
	case len(f.missing) > 0 && !f.packager:
		return fmt.Errorf("the local cluster needs %s, and this machine has no apt-get to install what is missing",
			strings.Join(f.missing, ", "))
	case f.conflict != "":
		return fmt.Errorf("the local cluster needs the address ranges %s and %s, but %s",
			podCIDR, serviceCIDR, f.conflict)
	case len(f.taken) > 0:
		t := f.taken[0]
		by := t.by
		if by == "" {
			by = "another program"
		}
		_, number, _ := net.SplitHostPort(t.addr)
		return fmt.Errorf("the local cluster needs port %s for its %s, but %s has it: stop that first",
			number, t.part, by)
	}
	return nil
}

// leftBehind tells whether the state folder is another checkout's and may be removed.
func (f facts) leftBehind() bool {
	return f.owner != "" && f.owner != f.checkout && f.ownerGone
}

func (c *Cluster) anyPartRuns() bool {
	daemons := c.daemons()
	return slices.ContainsFunc(parts(), func(part string) bool {
		_, ok := daemons.Find(part)
		return ok
	})
}

// gather looks at the machine. It changes nothing.
func (c *Cluster) gather() (facts, error) {
	f := facts{goos: goos(), root: os.Geteuid() == 0, checkout: c.Checkout}
	if f.checkMachine() != nil {
		return f, nil
	}
	owner, err := c.readOwner()
	if err != nil {
		return f, err
	}
	f.owner = owner
	if owner != "" {
		_, err := os.Stat(owner)
		f.ownerGone = errors.Is(err, fs.ErrNotExist) || !c.anyPartRuns()
	}
	f.missing = missingPackages()
	_, err = lookProgram("apt-get")
	f.packager = err == nil
	if f.conflict, err = addressConflict(); err != nil {
		return f, err
	}
	f.taken = c.takenPorts()
	return f, nil
}

// addressConflict looks for an address of the cluster's ranges on an interface that is not ours.
func addressConflict() (string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range interfaces {
		if i.Name == bridge {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err == nil && inRanges(prefix.Addr()) {
				return fmt.Sprintf("the network interface %s has the address %s", i.Name, prefix.Addr()), nil
			}
		}
	}
	return "", nil
}

func inRanges(addr netip.Addr) bool {
	for _, cidr := range []string{podCIDR, serviceCIDR} {
		if netip.MustParsePrefix(cidr).Contains(addr) {
			return true
		}
	}
	return false
}

// takenPorts tries the ports of all parts that do not run.
func (c *Cluster) takenPorts() []takenPort {
	daemons := c.daemons()
	var running []string
	for _, part := range parts() {
		if _, ok := daemons.Find(part); ok {
			running = append(running, part)
		}
	}
	var taken []takenPort
	for _, p := range ports() {
		if slices.Contains(running, p.part) {
			continue
		}
		l, err := net.Listen("tcp4", p.addr)
		if err == nil {
			_ = l.Close()
			continue
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			taken = append(taken, takenPort{port: p, by: c.proc.Listener(p.addr)})
		}
	}
	return taken
}
