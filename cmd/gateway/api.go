// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/naeel/sless/internal/gateway"
	"github.com/naeel/sless/internal/gateway/api"
	"github.com/naeel/sless/internal/gateway/auth"
	"github.com/naeel/sless/internal/objectstore"
)

// Values of --auth.
const (
	authJWT      = "jwt"
	authUnsigned = "unsigned"
)

type apiOptions struct {
	address    string
	auth       string
	tokens     auth.Config
	configFile string
	uploadDir  string
	maxUploads int
}

func (o *apiOptions) bind(fs *flag.FlagSet, getenv func(string) string) {
	fs.StringVar(&o.address, "api-bind-address", "",
		"The address of the API port, such as :8083: uploads and everything else under /v1. Empty switches it off.")
	fs.StringVar(&o.auth, "auth", authJWT,
		"How the API port knows its callers: jwt verifies tokens; unsigned believes all, for a trusted perimeter only.")
	fs.StringVar(&o.tokens.Issuer, "issuer", getenv("JWT_ISSUER"),
		"What the claim iss of a token must be. Without it the API answers 503. The default is the variable JWT_ISSUER.")
	fs.StringVar(&o.tokens.Audience, "audience", getenv("JWT_AUDIENCE"),
		"What the claim aud of a token must hold. Without it the API answers 503. The default is the variable JWT_AUDIENCE.")
	fs.StringVar(&o.tokens.JWKSURL, "jwks-url", getenv("JWKS_URL"),
		"Where the issuer publishes its keys. The default is the variable JWKS_URL, then <issuer>/.well-known/jwks.json.")
	fs.StringVar(&o.configFile, "config", "",
		"The configuration file of sless, of which objectStore and cleanup, for the API port, and scaling are used.")
	fs.StringVar(&o.uploadDir, "upload-dir", os.TempDir(),
		"The folder for uploads that are being worked on. Each takes up to 320 MiB.")
	fs.IntVar(&o.maxUploads, "max-uploads", api.DefaultMaxUploads,
		"How many uploads are worked on at once, half of them for one namespace. Further ones get 429.")
}

// server returns what serves the API port until its context ends, nil when the port is off.
func (o *apiOptions) server(
	restConfig *rest.Config, common gateway.Config, registry prometheus.Registerer, getenv func(string) string,
) (func(context.Context) error, error) {
	if o.auth != authJWT && o.auth != authUnsigned {
		return nil, fmt.Errorf("--auth must be %s or %s, not %q", authJWT, authUnsigned, o.auth)
	}
	if o.address == "" || o.address == "0" {
		return nil, nil
	}
	if o.maxUploads < 1 {
		return nil, errors.New("--max-uploads must be at least 1")
	}
	cfg := api.Config{
		Address: o.address, UploadDir: o.uploadDir, MaxUploads: o.maxUploads,
		ShutdownDelay: common.ShutdownDelay, DrainTimeout: common.DrainTimeout,
		Metrics: api.NewMetrics(registry), Log: ctrl.Log.WithName("api"),
	}
	if err := o.connect(&cfg, restConfig, getenv); err != nil {
		return nil, err
	}
	startEvents, err := connectReview(&cfg, restConfig, registry, getenv)
	if err != nil {
		return nil, err
	}
	if cfg.Unavailable != "" {
		cfg.Log.Info("The API answers 503 to every request", "reason", cfg.Unavailable)
	}
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return startEvents(ctx) })
		group.Go(func() error { return api.New(cfg).Run(ctx) })
		if unsigned, ok := cfg.Verifier.(*auth.Unsigned); ok {
			group.Go(func() error { unsigned.Warn(logr.NewContext(ctx, cfg.Log)); return nil })
		}
		return group.Wait()
	}, nil
}

// connect fills in what the API works with, or why it cannot work. A setting that is missing does not stop the gateway,
// because the public port does not need it; one that is wrong does.
func (o *apiOptions) connect(cfg *api.Config, restConfig *rest.Config, getenv func(string) string) error {
	if missing := o.tokens.Missing(); o.auth == authJWT && len(missing) > 0 {
		cfg.Unavailable = "the API is not configured: the operator of the gateway must set --" +
			strings.Join(missing, " and --")
		return nil
	}
	storeConfig, refreshAfter, err := loadObjectStore(o.configFile, getenv)
	if err != nil {
		return err
	}
	cfg.RefreshAfter = refreshAfter
	if storeConfig.Endpoint == "" {
		cfg.Unavailable = "the API is not configured: the operator of the gateway must set objectStore.endpoint in --config"
		return nil
	}
	if cfg.Store, err = objectstore.New(storeConfig); err != nil {
		return err
	}
	if cfg.Client, err = api.NewClient(restConfig); err != nil {
		return err
	}
	if o.auth == authUnsigned {
		cfg.Verifier = auth.NewUnsigned()
		return nil
	}
	o.tokens.Log = cfg.Log
	cfg.Verifier, err = auth.NewJWT(o.tokens)
	return err
}
