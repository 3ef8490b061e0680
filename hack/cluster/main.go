// SPDX-License-Identifier: Apache-2.0

// Command cluster runs a real single-node Kubernetes on this machine, for the demo and for tests.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/naeel/sless/hack/internal/cluster"
	"github.com/naeel/sless/hack/internal/progress"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// here makes the cluster of the checkout that the command is run in.
func here(out *os.File) (*cluster.Cluster, error) {
	return cluster.New(".", progress.New(out, time.Now), time.Now)
}
