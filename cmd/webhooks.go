// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/naeel/sless/internal/controller"
	"github.com/naeel/sless/internal/validator"
	"github.com/naeel/sless/internal/webhook/certificates"
	webhookv1alpha1 "github.com/naeel/sless/internal/webhook/v1alpha1"
)

// webhookOptions are the flags of admission.
type webhookOptions struct {
	enabled bool
	port    int
	certDir string
	rotate  bool
	names   certificates.Options
}

func (o *webhookOptions) bindFlags(flags *flag.FlagSet) {
	flags.BoolVar(&o.enabled, "webhooks", false, "Serve the admission webhooks.")
	flags.IntVar(&o.port, "webhook-port", 9443, "The port of the admission webhooks.")
	flags.StringVar(&o.certDir, "webhook-cert-dir", "/run/sless-webhook",
		"The directory of tls.crt. With --webhook-cert-rotation the manager writes to it, without it also tls.key must be there.")
	flags.BoolVar(&o.rotate, "webhook-cert-rotation", true,
		"Make and renew the certificate of the webhooks, and tell it to the webhook configurations.")
	flags.StringVar(&o.names.Service, "webhook-service", "sless-webhook-service", "The Service of the webhooks.")
	flags.StringVar(&o.names.Secret, "webhook-secret", "sless-webhook-certificate",
		"The Secret in which the certificate of the webhooks is kept.")
	flags.DurationVar(&o.names.CheckEvery, "webhook-cert-check-interval", certificates.DefaultCheckEvery,
		"How often it is looked whether the certificate is to be renewed, besides whenever its Secret changes.")
	flags.StringVar(&o.names.Mutating, "mutating-webhook-configuration", "sless-mutating-webhook-configuration",
		"The MutatingWebhookConfiguration of sless.")
	flags.StringVar(&o.names.Validating, "validating-webhook-configuration", "sless-validating-webhook-configuration",
		"The ValidatingWebhookConfiguration of sless.")
}

// webhooks is the part of the manager that answers the API server.
type webhooks struct {
	opts   webhookOptions
	source *certificates.Source
	server webhook.Server
}

func newWebhooks(opts webhookOptions) *webhooks {
	w := &webhooks{opts: opts, source: certificates.NewSource()}
	options := webhook.Options{
		Port: opts.port, CertDir: opts.certDir,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.MinVersion = tls.VersionTLS12 }},
	}
	if opts.rotate {
		options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) { c.GetCertificate = w.source.GetCertificate })
	}
	if !opts.enabled {
		options.Port = -1
	}
	w.server = webhook.NewServer(options)
	return w
}

// setup registers the webhooks, on every replica. The manager is not ready before the API server can reach them.
func (w *webhooks) setup(
	ctx context.Context, mgr ctrl.Manager, deps controller.Dependencies, gate *validator.Gate,
) error {
	if !w.opts.enabled {
		return nil
	}
	err := webhookv1alpha1.Setup(mgr, webhookv1alpha1.Dependencies{
		Catalogue: deps.Catalogue, Clock: deps.Clock, Reviewer: webhookv1alpha1.NewReviewer(gate, deps.Catalogue),
	})
	if err != nil {
		return fmt.Errorf("setting up the webhooks: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook-listener", w.server.StartedChecker()); err != nil {
		return fmt.Errorf("adding the readiness check of the webhooks: %w", err)
	}
	if !w.opts.rotate {
		return nil
	}
	names := w.opts.names
	names.Namespace, names.Dir = os.Getenv("POD_NAMESPACE"), w.opts.certDir
	trusted, err := certificates.Rotate(ctx, mgr, w.source, names)
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("webhook-certificate", trusted); err != nil {
		return fmt.Errorf("adding the readiness check of the webhooks' certificate: %w", err)
	}
	return nil
}
