// SPDX-License-Identifier: Apache-2.0

// Command gateway is the way in from outside: it passes calls of /fn/<namespace>/<name> on to the pods of functions,
// and on a port of its own it takes uploads of code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/naeel/sless/internal/gateway"
	"github.com/naeel/sless/internal/serverclock"
	"github.com/naeel/sless/runtimes"
)

var setupLog = ctrl.Log.WithName("setup")

type options struct {
	gateway        gateway.Config
	api            apiOptions
	trustedProxies string
	clusterDomain  string
	log            zap.Options
}

func (o *options) bind(fs *flag.FlagSet) {
	c := &o.gateway
	fs.StringVar(&c.PublicAddress, "public-bind-address", ":8080",
		"The address of the public port: /fn/<namespace>/<name>, /healthz, /readyz.")
	fs.StringVar(&c.MetricsAddress, "metrics-bind-address", ":8082",
		"The address of /metrics, over plain HTTP. 0 switches metrics off.")
	fs.StringVar(&o.trustedProxies, "trusted-proxies", "",
		"Comma-separated CIDRs of the proxies whose X-Forwarded headers are believed.")
	fs.IntVar(&c.MaxPending, "max-pending", 512,
		"How many calls of one function may wait, beyond those that its replicas take. Further calls get 429.")
	fs.DurationVar(&c.ConnectWindow, "connect-window", 30*time.Second,
		"How long a connection to a function is tried for. The function's timeout bounds it too.")
	fs.IntVar(&c.MaxWaiting, "max-waiting", 200,
		"How many calls may wait for the first replica of one function. Further calls get 429.")
	fs.DurationVar(&c.TimeoutGrace, "timeout-grace", 2*time.Second,
		"What is added to a function's timeout, so that the function's own answer about it comes first.")
	fs.DurationVar(&c.ShutdownDelay, "shutdown-delay", 5*time.Second,
		"How long calls are still taken after the signal to stop, while /readyz already fails.")
	fs.DurationVar(&c.DrainTimeout, "drain-timeout", 60*time.Second,
		"How long calls in flight may go on after that.")
	fs.DurationVar(&c.ConnectionMaxIdle, "rebalance-interval", 15*time.Second,
		"How often idle connections to functions are closed, so that new replicas get calls. 0 switches that off.")
	fs.StringVar(&o.clusterDomain, "cluster-domain", "",
		"The cluster's DNS domain, such as cluster.local. Empty leaves it to the pod's search list.")
	o.api.bind(fs, os.Getenv)
	o.log.BindFlags(fs)
}

func main() {
	var o options
	o.bind(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.log)))
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		setupLog.Error(err, "Running the gateway failed")
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	trusted, err := gateway.ParseTrustedProxies(o.trustedProxies)
	if err != nil {
		return fmt.Errorf("reading --trusted-proxies: %w", err)
	}
	if o.gateway.MaxPending < 1 || o.gateway.MaxWaiting < 1 {
		return errors.New("--max-pending and --max-waiting must be at least 1")
	}
	o.gateway.TrustedProxies = trusted
	scaling, err := loadScaling(o.api.configFile)
	if err != nil {
		return err
	}
	o.gateway.Interceptor, o.gateway.StartupTimeout = scaling.Interceptor, scaling.StartupTimeout()
	o.gateway.Log = ctrl.Log.WithName("gateway")

	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	o.api.tokens.Now = clusterTime(restConfig)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := gateway.NewMetrics(registry)
	catalogue, err := runtimes.Load()
	if err != nil {
		return fmt.Errorf("loading the catalogue of runtimes: %w", err)
	}
	resolver, err := gateway.NewCachedResolver(restConfig, o.clusterDomain, catalogue.DefaultConcurrency, metrics.Forget)
	if err != nil {
		return err
	}
	server := gateway.New(o.gateway, resolver, metrics, registry)
	serveAPI, err := o.api.server(restConfig, o.gateway, registry, os.Getenv)
	if err != nil {
		return fmt.Errorf("setting up the API port: %w", err)
	}

	// The cache outlives the signal to stop, because calls are still taken for a while.
	cacheCtx, stopCache := context.WithCancel(context.Background())
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return resolver.Start(cacheCtx) })
	if serveAPI != nil {
		group.Go(func() error { return serveAPI(groupCtx) })
	}
	group.Go(func() error {
		defer stopCache()
		return server.Run(groupCtx)
	})
	return group.Wait()
}

// clusterTime gives the API server's time, as those who use the configuration from now on hear of it. Tokens hold by that
// clock, whichever machine a gateway is on.
func clusterTime(restConfig *rest.Config) func() time.Time {
	now := serverclock.New(clock.RealClock{}, ctrl.Log.WithName("clock"))
	restConfig.Wrap(now.Wrap)
	return now.Now
}
