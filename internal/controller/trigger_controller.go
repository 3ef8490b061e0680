// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
)

// TriggerReconciler tells in the status of a Trigger where it is called. It makes no objects.
type TriggerReconciler struct {
	client.Client
	Config *config.Config
	Clock  clock.PassiveClock
}

var _ reconcile.Reconciler = (*TriggerReconciler)(nil)

// +kubebuilder:rbac:groups=sless.io,resources=triggers,verbs=get;list;watch
// +kubebuilder:rbac:groups=sless.io,resources=triggers/status,verbs=get;update;patch

// Reconcile makes one pass over a Trigger.
func (r *TriggerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	trigger := &v1alpha1.Trigger{}
	if err := r.Get(ctx, req.NamespacedName, trigger); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !trigger.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	fn := &v1alpha1.Function{}
	err := r.Get(ctx, types.NamespacedName{Namespace: trigger.Namespace, Name: trigger.Spec.FunctionRef.Name}, fn)
	switch {
	case apierrors.IsNotFound(err):
		fn = nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading the Function: %w", err)
	}
	base := trigger.DeepCopy()
	trigger.Status = computeTriggerStatus(trigger, fn, r.Config.Gateway, r.Clock.Now())
	_, err = patchStatus(ctx, r.Client, base, trigger, base.Status, trigger.Status)
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// SetupWithManager registers the controller and what it watches.
func (r *TriggerReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("trigger").
		For(&v1alpha1.Trigger{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Function{}, handler.EnqueueRequestsFromMapFunc(r.triggersForFunction)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Trigger controller: %w", err)
	}
	return nil
}

// triggersForFunction leads from a Function to the Triggers that refer to it.
func (r *TriggerReconciler) triggersForFunction(ctx context.Context, fn client.Object) []reconcile.Request {
	triggers := &v1alpha1.TriggerList{}
	if err := r.List(ctx, triggers, client.InNamespace(fn.GetNamespace()),
		client.MatchingFields{indexTriggerFunction: fn.GetName()}); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, 0, len(triggers.Items))
	for i := range triggers.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&triggers.Items[i])})
	}
	return requests
}
