// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/gateway/api"
	"github.com/naeel/sless/internal/validator"
)

// connectReview sets the review of uploaded code up, as the variables LLM_* of the environment say. The manager reads the
// same ones. What it returns sends events until its context ends.
func connectReview(
	cfg *api.Config, restConfig *rest.Config, registry prometheus.Registerer, getenv func(string) string,
) (start func(context.Context) error, err error) {
	none := func(context.Context) error { return nil }
	reviewConfig, err := validator.ConfigFromEnv(getenv)
	if err != nil || !reviewConfig.Enabled || cfg.Unavailable != "" {
		return none, err
	}
	cfg.Review, err = validator.New(reviewConfig, validator.Options{
		Store: cfg.Store, Registry: registry, Log: cfg.Log.WithName("review"),
	})
	if err != nil {
		return none, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return none, fmt.Errorf("adding the sless types to a scheme: %w", err)
	}
	client, err := eventsv1.NewForConfig(restConfig)
	if err != nil {
		return none, fmt.Errorf("making a client for events: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client})
	cfg.Events = broadcaster.NewRecorder(scheme, "sless-gateway")
	return func(ctx context.Context) error {
		if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
			return fmt.Errorf("starting to send events: %w", err)
		}
		<-ctx.Done()
		broadcaster.Shutdown()
		return nil
	}, nil
}
