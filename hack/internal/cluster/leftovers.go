// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/naeel/sless/hack/internal/daemon"
)

// helpers are programs that parts start and that may outlive them.
func helpers() []string {
	return []string{"containerd-shim-runc-v2", "runc", "bridge", "host-local", "loopback", "nft", "iptables"}
}

const (
	cgroupRoot = "/sys/fs/cgroup"
	// kubepods is the cgroup that the kubelet puts all pods into.
	kubepods = "kubepods"
	// shimRoot is where containerd's shims have their sockets, wherever containerd itself has its state.
	shimRoot = "/run/containerd"
	// cniCache, devicePlugins, and containerLogs are fixed in the CNI library and in the kubelet.
	cniCache      = "/var/lib/cni"
	devicePlugins = "/var/lib/kubelet/device-plugins"
	containerLogs = "/var/log/containers"
)

// containerIDs lists the containers that the node knows or half knows, so that their cgroups can be told from those of
// another kubelet.
func (c *Cluster) containerIDs() map[string]bool {
	ids := map[string]bool{}
	for _, dir := range []string{
		filepath.Join(c.paths.runcState(), imageNamespace),
		filepath.Join(c.paths.containerdState(), "io.containerd.runtime.v2.task", imageNamespace),
		filepath.Join(c.paths.containerdRoot(), "io.containerd.grpc.v1.cri", "sandboxes"),
		filepath.Join(c.paths.containerdRoot(), "io.containerd.grpc.v1.cri", "containers"),
	} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			ids[e.Name()] = true
		}
	}
	return ids
}

// shimSockets lists the sockets of our shims, which each of them notes in its folder.
func (c *Cluster) shimSockets() []string {
	files, _ := filepath.Glob(filepath.Join(
		c.paths.containerdState(), "io.containerd.runtime.v2.task", "*", "*", "address"))
	var sockets []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		path, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "unix://")
		if ok && strings.HasPrefix(path, shimRoot+"/") {
			sockets = append(sockets, path)
		}
	}
	return sockets
}

// killContainers ends the processes of all containers and of what looks after them, at once: their data goes too.
func (c *Cluster) killContainers(ctx context.Context, ids map[string]bool) error {
	// The shims first, so that none starts or reports anything while its container goes.
	for _, name := range helpers() {
		for _, id := range c.daemons().Marked(name) {
			if err := c.proc.Terminate(ctx, id, 0); err != nil {
				return fmt.Errorf("stopping %s: %w", name, err)
			}
		}
	}
	for _, dir := range cgroupsNamed(cgroupRoot, ids) {
		if err := killCgroup(ctx, c.proc, dir); err != nil {
			return err
		}
	}
	return nil
}

// cgroupsNamed finds the pods' cgroups that carry one of the names, in every hierarchy.
func cgroupsNamed(root string, names map[string]bool) []string {
	var found []string
	for _, top := range podCgroups(root) {
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && names[d.Name()] {
				found = append(found, path)
			}
			return nil
		})
	}
	return found
}

// podCgroups lists the top cgroups of all pods: one with cgroups v2, one for each controller with v1.
func podCgroups(root string) []string {
	var tops []string
	for _, pattern := range []string{filepath.Join(root, kubepods), filepath.Join(root, "*", kubepods)} {
		found, _ := filepath.Glob(pattern)
		tops = append(tops, found...)
	}
	return tops
}

// killCgroup kills all processes of a cgroup and of those below, until there are none: they may be making new ones.
func killCgroup(ctx context.Context, proc daemon.Proc, dir string) error {
	const rounds = 200
	for range rounds {
		alive := false
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil
			}
			data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			if err != nil {
				return nil
			}
			for field := range strings.FieldsSeq(string(data)) {
				pid, err := strconv.Atoi(field)
				if err != nil || pid <= 1 {
					continue
				}
				if _, ok := proc.Identify(pid); ok {
					alive = true
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			return nil
		})
		if !alive {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll / 10):
		}
	}
	return fmt.Errorf("the processes of cgroup %s do not end", dir)
}

// removeCgroups removes the empty cgroups of pods, the deepest first. One that still has processes is not ours: ours
// have been killed.
func removeCgroups(root string) error {
	var errs []error
	for _, top := range podCgroups(root) {
		var dirs []string
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			err := syscall.Rmdir(dir)
			if err != nil && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("removing cgroup %s: %w", dir, err))
			}
		}
	}
	return errors.Join(errs...)
}

// outside is what there is of ours outside of the state folder, noted before the state folder goes.
type outside struct {
	// shimSockets are sockets of containers' shims, containers the names of all containers.
	shimSockets []string
	containers  map[string]bool
}

// removeOutside removes what programs of the node put outside of the state folder because they cannot be told not to.
// Folders go when they are empty: others may use them too.
func (c *Cluster) removeOutside(o outside) error {
	var errs []error
	for _, socket := range o.shimSockets {
		errs = append(errs, removeIfThere(socket))
	}
	// The CNI library notes what it did for each pod and each of its interfaces in NETWORK-CONTAINER-INTERFACE.
	results, _ := filepath.Glob(cniCache + "/results/*")
	for _, file := range results {
		fields := strings.Split(filepath.Base(file), "-")
		if len(fields) >= 3 && o.containers[fields[len(fields)-2]] {
			errs = append(errs, removeIfThere(file))
		}
	}
	entries, _ := os.ReadDir(containerLogs)
	for _, e := range entries {
		path := filepath.Join(containerLogs, e.Name())
		if target, err := os.Readlink(path); err == nil && strings.HasPrefix(target, c.paths.state+"/") {
			errs = append(errs, removeIfThere(path))
		}
	}
	// A socket that nobody listens on any more was left by our kubelet.
	if conn, err := net.Dial("unix", devicePlugins+"/kubelet.sock"); err == nil {
		_ = conn.Close()
	} else {
		errs = append(errs, removeIfThere(devicePlugins+"/kubelet.sock"))
	}
	for _, dir := range []string{
		shimRoot + "/s", shimRoot, cniCache + "/results", cniCache, containerLogs,
		devicePlugins, filepath.Dir(devicePlugins),
	} {
		_ = syscall.Rmdir(dir)
	}
	return errors.Join(errs...)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
