// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/hack/internal/toolcache"
)

// BuildTools builds a group of hack/tools when the cache does not have it, shows how it goes, and gives the folder. It
// needs neither root nor a cluster.
func (c *Cluster) BuildTools(ctx context.Context, name string) (dir string, err error) {
	group, err := toolcache.Named(c.Checkout, name)
	if err != nil {
		return "", err
	}
	err = c.Out.Step(name+" programs", func(say progress.Say) (string, error) {
		var result string
		dir, result, err = c.buildGroup(ctx, group, say)
		return result, err
	})
	return dir, err
}

// buildGroup gives the folder of the group, and a word on where it came from.
func (c *Cluster) buildGroup(
	ctx context.Context, group toolcache.Group, say progress.Say,
) (dir, result string, err error) {
	version, err := group.Version()
	if err != nil {
		return "", "", err
	}
	_, built, err := c.Cache.Folder(ctx, group)
	if err != nil {
		return "", "", err
	}
	result = version + " built"
	if built {
		result = version + " from the cache"
	}
	say("compiling what the Go build cache does not have, and linking")
	dir, err = c.Cache.Build(ctx, group, func(line string) { say("%s", line) })
	return dir, result, err
}
