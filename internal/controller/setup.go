// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/internal/webhook/v1alpha1/validation"
)

// Names of the controllers, as --controllers takes them.
const (
	FunctionController    = "function"
	TriggerController     = "trigger"
	FunctionJobController = "functionjob"
)

// Names lists the controllers that can be chosen.
func Names() []string {
	return []string{FunctionController, TriggerController, FunctionJobController}
}

// Dependencies are what the controllers work with.
type Dependencies struct {
	Config    *config.Config
	Catalogue validation.Catalogue
	Store     objectstore.Store
	Images    Images
	// Review judges code. Without one all code passes.
	Review Reviewer
	Clock  clock.PassiveClock

	// memory is made when it is nil.
	memory *memory
	// passTimeout is that of a pass over a Function, that of the package when it is 0.
	passTimeout time.Duration
}

// CacheOptions keep the cache small: of the kinds that everybody uses it holds only what sless made.
func CacheOptions() cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless})}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:          ours,
			&batchv1.CronJob{}:            ours,
			&batchv1.Job{}:                ours,
			&corev1.Namespace{}:           ours,
			&corev1.Pod{}:                 ours,
			&corev1.Service{}:             ours,
			&networkingv1.Ingress{}:       ours,
			&networkingv1.NetworkPolicy{}: ours,
		},
	}
}

// Setup registers the named controllers with the manager.
func Setup(ctx context.Context, mgr ctrl.Manager, names []string, deps Dependencies) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("there is no controller %q; choose from %v", name, Names())
		}
	}
	if err := SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	setups := map[string]func() error{
		FunctionController: func() error {
			r := &FunctionReconciler{
				Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: deps.Config, Catalogue: deps.Catalogue,
				Store: deps.Store, Images: deps.Images, Review: deps.Review, Recorder: mgr.GetEventRecorder("sless"), Clock: deps.Clock,
				memory: deps.memory, passTimeout: deps.passTimeout,
			}
			if err := r.SetupWithManager(mgr); err != nil {
				return err
			}
			return setupCleanup(mgr, r)
		},
		TriggerController: func() error {
			if err := setupTriggerIndex(ctx, mgr.GetFieldIndexer(), deps.Config.Gateway); err != nil {
				return err
			}
			return (&TriggerReconciler{
				Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: deps.Config,
				Recorder: mgr.GetEventRecorder("sless"), Clock: deps.Clock,
			}).SetupWithManager(mgr)
		},
		FunctionJobController: func() error {
			return (&FunctionJobReconciler{
				Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: deps.Config, Catalogue: deps.Catalogue,
				Recorder: mgr.GetEventRecorder("sless"), Clock: deps.Clock,
			}).SetupWithManager(mgr)
		},
	}
	for _, name := range names {
		if err := setups[name](); err != nil {
			return err
		}
	}
	return nil
}
