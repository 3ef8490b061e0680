// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/naeel/sless/hack/internal/progress"
)

// Down stops the cluster and removes everything that Up, the kubelet, kube-proxy, and containerd made on the machine,
// data included. Packages and the cache stay. It can be stopped at any moment and run again; where there is no cluster
// it does nothing.
func (c *Cluster) Down(ctx context.Context) error {
	f, unlock, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.checkOwner(); err != nil {
		return err
	}
	if err := c.remove(ctx); err != nil {
		return err
	}
	_ = syscall.Rmdir(filepath.Dir(c.Kubeconfig()))
	c.Out.Printf("The cluster is down.")
	return nil
}

// remove stops what runs and removes everything that was made.
func (c *Cluster) remove(ctx context.Context) error {
	var left outside
	for _, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"Stopping the parts", c.stopParts},
		{"Stopping the containers", func(ctx context.Context) error {
			left = outside{shimSockets: c.shimSockets(), containers: c.containerIDs()}
			return c.killContainers(ctx, left.containers)
		}},
		{"Unmounting", func(context.Context) error { return unmountBelow(c.paths.state, mountTable) }},
		{"Removing network and cgroups", func(ctx context.Context) error {
			return errors.Join(removeNetwork(ctx), removeCgroups(cgroupRoot), c.restoreSysctls())
		}},
		{"Removing the data", func(context.Context) error {
			login := RegistryLogin(c.Checkout)
			err := errors.Join(c.removeOutside(left), c.removeState(), removeIfThere(c.Kubeconfig()), removeIfThere(login))
			_ = syscall.Rmdir(filepath.Dir(login))
			return err
		}},
	} {
		err := c.Out.Step(step.title, func(progress.Say) (string, error) { return "", step.run(ctx) })
		if err != nil {
			return err
		}
	}
	return nil
}

// downGrace is short: what the parts would save is removed anyway. The API server would wait for its clients.
const downGrace = 2 * time.Second

// stopParts stops all parts, those that start last first. The kubelet goes before containerd, so that it starts no pod
// again.
func (c *Cluster) stopParts(ctx context.Context) error {
	var errs []error
	for _, part := range slices.Backward(parts()) {
		errs = append(errs, c.daemons().Stop(ctx, part, downGrace))
	}
	return errors.Join(errs...)
}

// removeState removes the state folder. The owner goes last, so that a folder that is there always has one.
func (c *Cluster) removeState() error {
	// Something may have been mounted while the parts stopped.
	if err := unmountBelow(c.paths.state, mountTable); err != nil {
		return err
	}
	entries, err := os.ReadDir(c.paths.state)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(c.paths.state, e.Name())
		if path == c.paths.owner() {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing the state folder: %w", err)
		}
	}
	return os.RemoveAll(c.paths.state)
}
