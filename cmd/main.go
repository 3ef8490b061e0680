// SPDX-License-Identifier: Apache-2.0

// Command manager runs the controllers of sless.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // Schedules name time zones, and the image has no zone files.

	httpv1beta1 "github.com/kedacore/http-add-on/operator/apis/http/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/internal/serverclock"
	"github.com/naeel/sless/internal/validator"
	"github.com/naeel/sless/runtimes"
	// +kubebuilder:scaffold:imports
)

// leaderElectionID names the lease of the managers that run the same controllers. A suite that is split over several
// Deployments has one lease for each part.
func leaderElectionID(controllers string) string {
	names := controllerNames(controllers)
	if len(names) == 0 {
		return "webhooks.manager.sless.io"
	}
	slices.Sort(names)
	if slices.Equal(names, slices.Sorted(slices.Values(controller.Names()))) {
		return "manager.sless.io"
	}
	return strings.Join(names, ".") + ".manager.sless.io"
}

// controllerNames returns the names in the flag. Empty or "none" are none.
func controllerNames(controllers string) []string {
	if controllers == "" || controllers == "none" {
		return nil
	}
	return strings.Split(controllers, ",")
}

type options struct {
	configFile      string
	controllers     string
	metricsAddr     string
	metricsSecure   bool
	metricsCertPath string
	probeAddr       string
	leaderElect     bool
	webhooks        webhookOptions
	zap             zap.Options
}

func main() {
	opts := options{}
	flag.StringVar(&opts.configFile, "config", "", "The configuration file.")
	flag.StringVar(&opts.controllers, "controllers", strings.Join(controller.Names(), ","),
		"The controllers to run, separated by commas; none runs none, for a manager that serves webhooks only.")
	flag.StringVar(&opts.metricsAddr, "metrics-bind-address", "0",
		"The address of the metrics endpoint: :8443 for HTTPS, :8080 for HTTP, 0 for none.")
	flag.BoolVar(&opts.metricsSecure, "metrics-secure", true, "Serve metrics by HTTPS, to authorized clients only.")
	flag.StringVar(&opts.metricsCertPath, "metrics-cert-path", "",
		"The directory with tls.crt and tls.key of the metrics server. Without it a self-signed certificate is made.")
	flag.StringVar(&opts.probeAddr, "health-probe-bind-address", ":8081", "The address of the health endpoints.")
	flag.BoolVar(&opts.leaderElect, "leader-elect", false, "Let only one of several managers work at a time.")
	opts.webhooks.bindFlags(flag.CommandLine)
	opts.zap.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&opts.zap)))

	if err := run(ctrl.SetupSignalHandler(), opts); err != nil {
		ctrl.Log.Error(err, "Failed to run the manager")
		os.Exit(1)
	}
}

func run(ctx context.Context, opts options) error {
	cfg, err := config.Load(opts.configFile, os.Getenv)
	if err != nil {
		return err
	}
	hooks := newWebhooks(opts.webhooks)
	// The times of objects are the API server's, and so are those that the controllers write and compare with them.
	now := serverclock.New(clock.RealClock{}, ctrl.Log.WithName("clock"))
	mgr, err := newManager(opts, hooks.server, now)
	if err != nil {
		return err
	}
	deps, store, err := dependencies(cfg, now)
	if err != nil {
		return err
	}
	if err := mgr.Add(ensureBucket(store, bucketBackoff)); err != nil {
		return fmt.Errorf("adding the check of the bucket: %w", err)
	}
	gate, err := reviewGate(store)
	if err != nil {
		return err
	}
	deps.Review = gate
	if err := controller.Setup(ctx, mgr, controllerNames(opts.controllers), deps); err != nil {
		return err
	}
	if err := hooks.setup(ctx, mgr, deps, gate); err != nil {
		return err
	}
	// +kubebuilder:scaffold:builder
	ctrl.Log.Info("Starting the manager", "controllers", opts.controllers)
	return mgr.Start(ctx)
}

func newManager(opts options, webhooks webhook.Server, now *serverclock.Clock) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(httpv1beta1.AddToScheme(scheme))
	// +kubebuilder:scaffold:scheme

	metrics := metricsserver.Options{
		BindAddress:   opts.metricsAddr,
		SecureServing: opts.metricsSecure,
		CertDir:       opts.metricsCertPath,
		// HTTP/2 is off, since its stream reset attacks (CVE-2023-44487) would reach an endpoint that needs none of it.
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}
	if opts.metricsSecure {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	cluster := ctrl.GetConfigOrDie()
	cluster.Wrap(now.Wrap)
	mgr, err := ctrl.NewManager(cluster, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         controller.CacheOptions(),
		Metrics:                       metrics,
		WebhookServer:                 webhooks,
		HealthProbeBindAddress:        opts.probeAddr,
		LeaderElection:                opts.leaderElect,
		LeaderElectionID:              leaderElectionID(opts.controllers),
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, nil
}

// bucketBackoff is how long is waited between two looks for the bucket: once the longest pause is reached, that.
var bucketBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Cap: time.Minute, Steps: 10}

// ensureBucket makes the bucket of the object store when there is none. A store that is not there yet is asked again for as
// long as it takes, without holding anything else up: an error would end the manager.
func ensureBucket(store interface{ EnsureBucket(context.Context) error }, backoff wait.Backoff) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		// The loops that take a Backoff end with an error when its pauses do not grow any more.
		_ = backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
			err := store.EnsureBucket(ctx)
			if err != nil && ctx.Err() == nil {
				ctrl.Log.Error(err, "Failed to look for the bucket of the object store, trying again")
			}
			return err == nil, nil
		}) // the end of the context is the only error
		return nil
	})
}

func dependencies(cfg *config.Config, now clock.PassiveClock) (controller.Dependencies, *objectstore.S3, error) {
	none := controller.Dependencies{}
	catalogue, err := runtimes.Load()
	if err != nil {
		return none, nil, fmt.Errorf("loading the catalogue of runtimes: %w", err)
	}
	store, err := objectstore.New(objectstore.Config{
		Endpoint: cfg.ObjectStore.Endpoint, Region: cfg.ObjectStore.Region, Bucket: cfg.ObjectStore.Bucket,
		PathStyle: cfg.ObjectStore.PathStyle, Insecure: cfg.ObjectStore.Insecure, CAFile: cfg.ObjectStore.CAFile,
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		Clock: now,
	})
	if err != nil {
		return none, nil, fmt.Errorf("setting up the object store: %w", err)
	}
	imageConfig := image.Config{Insecure: cfg.Registry.Insecure, CAFile: cfg.Registry.CAFile}
	if cfg.Registry.DockerConfigFile != "" {
		imageConfig.Keychain = image.KeychainFromFile(cfg.Registry.DockerConfigFile)
	}
	images, err := image.New(imageConfig)
	if err != nil {
		return none, nil, fmt.Errorf("setting up the registry: %w", err)
	}
	return controller.Dependencies{Config: cfg, Catalogue: catalogue, Store: store, Images: images, Clock: now}, store, nil
}

// reviewGate sets the review of code up as the variables LLM_* of the environment say. The gateway reads the same ones.
func reviewGate(store objectstore.Store) (*validator.Gate, error) {
	cfg, err := validator.ConfigFromEnv(os.Getenv)
	if err != nil {
		return nil, err
	}
	gate, err := validator.New(cfg, validator.Options{
		Store: store, Registry: ctrlmetrics.Registry, Log: ctrl.Log.WithName("review"),
	})
	if err != nil {
		return nil, err
	}
	if gate.Enabled() {
		ctrl.Log.Info("Code is reviewed before it runs", "endpoint", cfg.Endpoint, "model", cfg.Model,
			"failurePolicy", string(cfg.FailurePolicy))
	}
	return gate, nil
}
