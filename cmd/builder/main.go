// SPDX-License-Identifier: Apache-2.0

// Builder runs the steps of a build pod. See package internal/builder.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/naeel/sless/internal/builder"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := (&builder.Program{}).Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
