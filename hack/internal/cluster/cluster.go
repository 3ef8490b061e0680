// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"path/filepath"
	"time"

	"github.com/naeel/sless/hack/internal/daemon"
	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/hack/internal/toolcache"
)

// Cluster is the local cluster as seen from one checkout.
type Cluster struct {
	// Checkout is the folder of the main module.
	Checkout string
	// Cache holds the programs and images that are built once.
	Cache toolcache.Cache
	// Out shows what happens.
	Out *progress.Printer
	// Now is the clock that certificates are made by.
	Now func() time.Time

	paths paths
	proc  daemon.Proc
}

// New makes the cluster of the checkout that holds the folder start.
func New(start string, out *progress.Printer, now func() time.Time) (*Cluster, error) {
	checkout, err := toolcache.Checkout(start)
	if err != nil {
		return nil, err
	}
	root, err := toolcache.Root()
	if err != nil {
		return nil, err
	}
	return &Cluster{
		Checkout: checkout, Cache: toolcache.Cache{Dir: root}, Out: out, Now: now,
		paths: paths{state: StateDir}, proc: daemon.Proc{Root: "/proc"},
	}, nil
}

// Kubeconfig is the file that Up writes for people and tests.
func (c *Cluster) Kubeconfig() string {
	return filepath.Join(c.Checkout, "bin", "cluster", "kubeconfig")
}

// daemons are the parts that run as processes of the machine.
func (c *Cluster) daemons() daemon.Set {
	return daemon.Set{Name: c.paths.state, PIDDir: c.paths.pids(), LogDir: c.paths.logs(), Proc: c.proc}
}
