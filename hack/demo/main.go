// SPDX-License-Identifier: Apache-2.0

// Command demo puts sless on a cluster and shows it at work: two functions, applied and called, one of them run once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/hack/internal/toolcache"
)

func main() {
	// The client library complains when nobody takes its log.
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// options are what all commands share.
type options struct {
	cluster  string
	checkout string
	// keda also puts KEDA on the local cluster.
	keda bool
}

// Values of --cluster.
const (
	clusterLocal   = "local"
	clusterCurrent = "current"
)

func newRootCommand() *cobra.Command {
	opts := options{}
	root := &cobra.Command{
		Use:           "demo",
		Short:         "Put sless on a cluster and show it at work",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			if opts.cluster != clusterLocal && opts.cluster != clusterCurrent {
				return fmt.Errorf("the cluster is %q, but can be %s or %s", opts.cluster, clusterLocal, clusterCurrent)
			}
			opts.checkout, err = toolcache.Checkout(".")
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), opts) },
	}
	root.PersistentFlags().StringVar(&opts.cluster, "cluster", clusterLocal,
		"local: the cluster of make cluster-up; current: that of the current kubeconfig, where sless is installed already")
	root.PersistentFlags().BoolVar(&opts.keda, "keda", false, "also put KEDA and its http-add-on on the local cluster")
	root.AddCommand(newSecretsCommand(&opts), &cobra.Command{
		Use:   "keda",
		Short: "Start the local cluster and put KEDA with its http-add-on on it, without sless",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return upWithKEDA(cmd.Context(), opts, progress.New(os.Stdout, time.Now))
		},
	}, &cobra.Command{
		Use:   "deploy",
		Short: "Start the local cluster and put sless on it, without functions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := deploy(cmd.Context(), opts, progress.New(os.Stdout, time.Now))
			return err
		},
	})
	return root
}

// demo deploys sless unless the user's own cluster is used, and then shows the sample functions.
func demo(ctx context.Context, opts options) error {
	printer := progress.New(os.Stdout, time.Now)
	d := &deployment{}
	began := time.Now()
	if opts.cluster == clusterLocal {
		var err error
		if d, err = deploy(ctx, opts, printer); err != nil {
			return err
		}
	}
	ready := time.Since(began)
	stories, err := showFunctions(ctx, printer, d.kubeconfig, opts.checkout)
	var once *run
	if err == nil {
		once, err = showRun(ctx, printer, d.kubeconfig, opts.checkout)
	}
	printSummary(os.Stdout, ready, stories)
	printRun(os.Stdout, once)
	if err == nil && opts.cluster == clusterLocal {
		printNext(os.Stdout, d)
	}
	return err
}
