// SPDX-License-Identifier: Apache-2.0

// Command watchdog is PID 1 of every function container. It is the HTTP server of the function and keeps the language
// worker, which holds the user's handler, running.
//
//	watchdog [serve] [flags]         serve calls until SIGTERM
//	watchdog check [flags]           load the handler and exit: 0 if it can be loaded, 1 if not
//	watchdog run --event-file F      call the handler once and exit: 0 if it succeeded, 1 if not
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/naeel/sless/runtimes/watchdog/internal/termination"
	"github.com/naeel/sless/runtimes/watchdog/internal/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Main runs one of the commands until it is done or ctx ends, and returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command := "serve"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	o, err := parseOptions(command, args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	var message string
	if err == nil {
		log := slog.New(slog.NewTextHandler(stderr, nil))
		message, err = dispatch(ctx, command, &o, log, stdout, stderr)
	}
	if err != nil {
		message = termination.Line(reasonOf(err), err.Error())
		_, _ = fmt.Fprintln(stderr, message)
	}
	if message != "" {
		if writeErr := termination.Write(o.terminationLog, message); writeErr != nil {
			_, _ = fmt.Fprintln(stderr, "Cannot write the termination log:", writeErr)
		}
	}
	if err != nil {
		return 1
	}
	return 0
}

// dispatch runs a command and returns what to leave in the termination log when it succeeds.
func dispatch(
	ctx context.Context, command string, o *options, log *slog.Logger, stdout, stderr io.Writer,
) (string, error) {
	reaper, err := worker.NewReaper()
	if err != nil {
		log.Warn("Orphans of user code will not be collected", "err", err)
	}
	cfg := o.workerConfig(stdout, stderr)
	cfg.Reaper = reaper
	switch command {
	case "serve":
		return "", serve(ctx, o, cfg, log)
	case "check":
		return "", check(ctx, cfg)
	case "run":
		return runOnce(ctx, o, cfg)
	}
	err = fmt.Errorf("unknown command %q, want serve, check or run", command)
	return "", &reasonError{termination.BadConfiguration, err}
}

// check proves that the handler can be loaded.
func check(ctx context.Context, cfg worker.Config) error {
	process, err := worker.Start(ctx, cfg)
	if err != nil {
		return err
	}
	process.Kill()
	<-process.Done()
	return nil
}

// reasonError is an error with its reason for the termination log.
type reasonError struct {
	reason string
	err    error
}

func (e *reasonError) Error() string { return e.err.Error() }
func (e *reasonError) Unwrap() error { return e.err }

func reasonOf(err error) string {
	var reason *reasonError
	var load *worker.LoadError
	var crash *worker.CrashError
	switch {
	case errors.As(err, &reason):
		return reason.reason
	case errors.As(err, &load):
		return termination.HandlerLoadFailed
	case errors.As(err, &crash):
		return termination.HandlerCrashed
	case errors.Is(err, context.Canceled):
		return termination.Interrupted
	}
	return termination.BadConfiguration
}
