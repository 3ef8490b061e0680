// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/runtimes/watchdog/internal/termination"
	"github.com/naeel/sless/runtimes/watchdog/internal/worker"
)

// Environment of the runtime image and of the function.
const (
	envWorker     = "SLESS_WORKER"     // command line of the language worker, split at spaces
	envEntrypoint = "SLESS_ENTRYPOINT" // <file without extension>.<function>
	envAppDir     = "SLESS_APP_DIR"    // folder of the user's code, default /app
)

type options struct {
	functionName, functionNamespace   string
	timeout, loadTimeout              time.Duration
	drainTimeout, drainDelay          time.Duration
	concurrency, maxBodyBytes         int64
	port, adminPort                   int
	terminationLog, socketDir         string
	eventFile                         string
	appDir, workerCommand, entrypoint string
}

func parseOptions(command string, args []string, output io.Writer) (options, error) {
	o := options{
		appDir: os.Getenv(envAppDir), workerCommand: os.Getenv(envWorker), entrypoint: os.Getenv(envEntrypoint),
		terminationLog: termination.DefaultPath,
	}
	if o.appDir == "" {
		o.appDir = "/app"
	}
	flags := flag.NewFlagSet("watchdog "+command, flag.ContinueOnError)
	flags.SetOutput(output)
	o.bind(flags)
	if command == "run" {
		flags.StringVar(&o.eventFile, "event-file", "", "file with the JSON event")
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	return o, o.validate(flags.Args())
}

func (o *options) bind(flags *flag.FlagSet) {
	flags.StringVar(&o.functionName, "function-name", "", "name of the function")
	flags.StringVar(&o.functionNamespace, "function-namespace", "", "namespace of the function")
	flags.DurationVar(&o.timeout, "timeout", 60*time.Second, "longest time of a call")
	flags.DurationVar(&o.loadTimeout, "load-timeout", 2*time.Minute, "longest time to load the handler")
	flags.Int64Var(&o.concurrency, "concurrency", 0, "most calls in flight; 0 is "+strconv.Itoa(naming.DefaultConcurrency))
	flags.Int64Var(&o.maxBodyBytes, "max-body-bytes", 32<<20, "largest body of a request, and largest result of a job")
	flags.IntVar(&o.port, "port", 8080, "port of the function")
	flags.IntVar(&o.adminPort, "admin-port", 8081, "port of /healthz, /readyz and /metrics")
	flags.DurationVar(&o.drainTimeout, "drain-timeout", 30*time.Second,
		"longest time from SIGTERM to the end, for calls in flight")
	flags.DurationVar(&o.drainDelay, "drain-delay", 2*time.Second,
		"time after SIGTERM in which new calls are still taken, until nobody is sent here any more")
	flags.StringVar(&o.terminationLog, "termination-log", o.terminationLog, "file for the reason of the end")
	flags.StringVar(&o.socketDir, "socket-dir", os.TempDir(), "writable folder for unix sockets")
}

func (o *options) validate(rest []string) error {
	dot := strings.LastIndexByte(o.entrypoint, '.')
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case strings.TrimSpace(o.workerCommand) == "":
		return errors.New(envWorker + " is not set: this is no runtime image")
	case dot <= 0 || dot == len(o.entrypoint)-1:
		return fmt.Errorf("%s is %q, want <file without extension>.<function>", envEntrypoint, o.entrypoint)
	case o.timeout <= 0 || o.loadTimeout <= 0 || o.drainTimeout < 0 || o.drainDelay < 0:
		return errors.New("a timeout must be above 0")
	case o.concurrency < 0 || o.maxBodyBytes <= 0:
		return errors.New("--concurrency and --max-body-bytes must not be negative")
	}
	if o.concurrency == 0 {
		o.concurrency = naming.DefaultConcurrency
	}
	return nil
}

func (o *options) workerConfig(stdout, stderr io.Writer) worker.Config {
	return worker.Config{
		Command: strings.Fields(o.workerCommand), AppDir: o.appDir, SocketDir: o.socketDir, Entrypoint: o.entrypoint,
		FunctionName: o.functionName, FunctionNamespace: o.functionNamespace, LoadTimeout: o.loadTimeout,
		Stdout: stdout, Stderr: stderr,
	}
}
