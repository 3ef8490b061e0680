// SPDX-License-Identifier: Apache-2.0

// Command bench measures sless on a real cluster and prints tables. It fails on wrong answers, and never on a time:
// docs/benchmarks.md tells how it measures and what the figures mean.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Values of --cluster.
const (
	clusterLocal   = "local"
	clusterCurrent = "current"
)

const localKubeconfig = "bin/cluster/kubeconfig"

type options struct {
	cluster  string
	only     []string
	runtimes []string
	runs     int
	duration time.Duration
	idle     []int32
	markdown string
	verbose  bool
}

// benchmark is one thing to measure. Its tables go into the blocks of the page that have their names.
type benchmark struct {
	name string
	runs int
	run  func(ctx context.Context, b *bench, runs int) ([]*table, error)
}

func benchmarks() []benchmark {
	return []benchmark{
		{name: "noop", runs: 5, run: measureNoop},
		{name: "edit", runs: 15, run: measureEdit},
		{name: "dependency", runs: 5, run: measureDependency},
		{name: "warm", runs: 3, run: measureWarm},
		{name: "admission", runs: 20, run: measureAdmission},
		{name: "run", runs: 15, run: measureRun},
		{name: "runs", runs: 1, run: measureManyRuns},
		{name: "upload", runs: 15, run: measureUpload},
		{name: "wake", runs: 50, run: measureWake},
		{name: "burst", runs: 5, run: measureBurst},
		{name: "steady", runs: 3, run: measureSteady},
		{name: "idle", runs: 3, run: measureIdle},
	}
}

func newRootCommand() *cobra.Command {
	opts := options{}
	names := make([]string, 0, len(benchmarks()))
	for _, m := range benchmarks() {
		names = append(names, m.name)
	}
	cmd := &cobra.Command{
		Use:           "bench",
		Short:         "Measure sless on a real cluster",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.check(names); err != nil {
				return err
			}
			return measure(cmd.Context(), opts, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.cluster, "cluster", clusterLocal,
		"local: the cluster of make cluster-up; current: that of the current kubeconfig; sless must run there already")
	flags.StringSliceVar(&opts.only, "only", nil, "measure these only: "+strings.Join(names, ", "))
	flags.StringSliceVar(&opts.runtimes, "runtime", runtimeNames(), "measure these runtimes")
	flags.IntVar(&opts.runs, "runs", 0, "how often to measure; 0 is each benchmark's own number")
	flags.DurationVar(&opts.duration, "load-duration", 5*time.Second, "how long one load of warm and steady lasts")
	flags.Int32SliceVar(&opts.idle, "idle-seconds", []int32{sleeperIdle, 10, 70}, "the values of idleSeconds that idle measures")
	flags.BoolVar(&opts.verbose, "verbose", false, "print the stages of every single run")
	flags.StringVar(&opts.markdown, "markdown", "", "write the tables into this page, between its markers")
	return cmd
}

const (
	maxRuns     = 1000
	maxDuration = time.Minute
)

func (o options) check(names []string) error {
	if o.cluster != clusterLocal && o.cluster != clusterCurrent {
		return fmt.Errorf("the cluster is %q, but can be %s or %s", o.cluster, clusterLocal, clusterCurrent)
	}
	for _, name := range o.only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("there is no benchmark %q; choose from %s", name, strings.Join(names, ", "))
		}
	}
	for _, name := range o.runtimes {
		if !slices.Contains(runtimeNames(), name) {
			return fmt.Errorf("there is no code to measure for runtime %q; choose from %s", name,
				strings.Join(runtimeNames(), ", "))
		}
	}
	if o.runs < 0 || o.runs > maxRuns {
		return fmt.Errorf("the number of runs is %d, but can be 0 to %d", o.runs, maxRuns)
	}
	if o.duration < time.Second || o.duration > maxDuration {
		return fmt.Errorf("the duration of a load is %s, but can be 1s to %s", o.duration, maxDuration)
	}
	for _, seconds := range o.idle {
		if seconds < sleeperIdle {
			return fmt.Errorf("idleSeconds is %d, but can be %d at least", seconds, sleeperIdle)
		}
	}
	return nil
}

// measure runs the chosen benchmarks, prints their tables, and removes its Functions whatever happened.
func measure(ctx context.Context, opts options, out io.Writer) error {
	b, err := newBench(ctx, opts)
	if err != nil {
		return err
	}
	tables := []*table{b.machineTable(ctx)}
	tables[0].writeText(out)
	var failed error
	for _, m := range benchmarks() {
		if len(opts.only) > 0 && !slices.Contains(opts.only, m.name) {
			continue
		}
		runs := m.runs
		if opts.runs > 0 {
			runs = opts.runs
		}
		made, err := m.run(ctx, b, runs)
		for _, t := range made {
			t.writeText(out)
		}
		tables = append(tables, made...)
		if err != nil {
			failed = fmt.Errorf("%s: %w", m.name, err)
			break
		}
	}
	failed = errors.Join(failed, b.close(ctx))
	if opts.markdown != "" {
		failed = errors.Join(failed, rewriteFile(opts.markdown, tables))
	}
	if b.wrong > 0 {
		failed = errors.Join(failed, fmt.Errorf("%d answers were wrong; the first: %s", b.wrong, b.firstWrong))
	}
	return failed
}
