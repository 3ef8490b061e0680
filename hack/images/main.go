// SPDX-License-Identifier: Apache-2.0

// Command images makes every container image that the local cluster needs, without a container engine. What it made is
// kept in the cache folder (SLESS_CACHE) under names that depend on content alone, so that a second run makes nothing
// and a run after a change makes only what changed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/hack/internal/toolcache"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "images:", err)
		stop()
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "images",
		Short:         "Make the container images of the local cluster without a container engine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(newNodeCommand(), newRuntimesCommand())
	return cmd
}

// workshop is what every step needs.
type workshop struct {
	checkout string // folder of the main module
	dir      string // this program's part of the cache
	tools    toolcache.Cache
	progress *progress.Printer
	held     *os.File // the lock; kept so that it is not closed when it is collected
}

// newWorkshop finds the checkout and the cache and takes the command's lock in the cache, so that two runs of a command
// never write the same program. The lock goes with the process.
func newWorkshop(ctx context.Context, command string) (*workshop, error) {
	checkout, err := toolcache.Checkout(".")
	if err != nil {
		return nil, err
	}
	root, err := toolcache.Root()
	if err != nil {
		return nil, err
	}
	w := &workshop{
		checkout: checkout,
		dir:      filepath.Join(root, "images"),
		tools:    toolcache.Cache{Dir: root},
		progress: progress.New(os.Stderr, time.Now),
	}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return nil, err
	}
	return w, w.lock(ctx, command)
}
