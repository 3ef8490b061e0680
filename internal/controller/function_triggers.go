// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
)

// observeTriggers reads what calls the Function, and whether all of that is switched off.
func (r *FunctionReconciler) observeTriggers(ctx context.Context, s *functionScope) error {
	triggers := &v1alpha1.TriggerList{}
	if err := r.List(ctx, triggers, client.InNamespace(s.fn.Namespace),
		client.MatchingFields{indexTriggerFunction: s.fn.Name}); err != nil {
		return fmt.Errorf("listing the Triggers: %w", err)
	}
	s.triggers = triggers.Items
	s.disabled, _ = plan.Disabled(triggers.Items)
	return nil
}

// freezeOrThaw scales what runs to zero and back as soon as the Function is switched off or on, whatever version it is and
// whatever the later phases run into: neither needs a build, the registry or the object store.
func (r *FunctionReconciler) freezeOrThaw(ctx context.Context, s *functionScope) error {
	if s.scaling == plan.ScalingAuto {
		return r.pauseScaling(ctx, s)
	}
	wanted := wantedReplicas(s)
	if s.deployment == nil || wanted == nil {
		return nil
	}
	if now := ptr.Deref(s.deployment.Spec.Replicas, 1); (now == 0) == (*wanted == 0) {
		return nil // ensureWorkload does the rest
	}
	base := s.deployment.DeepCopy()
	s.deployment.Spec.Replicas = wanted
	if err := r.Patch(ctx, s.deployment, client.MergeFrom(base), client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return fmt.Errorf("scaling the Deployment: %w", err)
	}
	return nil
}

// functionForTrigger leads from a Trigger to its Function. Of a change it is asked for both sides, so that a Function that
// lost a Trigger is looked at too.
func functionForTrigger(_ context.Context, obj client.Object) []reconcile.Request {
	trigger, ok := obj.(*v1alpha1.Trigger)
	if !ok {
		return nil
	}
	key := types.NamespacedName{Namespace: trigger.Namespace, Name: trigger.Spec.FunctionRef.Name}
	return []reconcile.Request{{NamespacedName: key}}
}

// triggerConcernsFunction lets through what may switch a Function off or on, or give it a URL.
func triggerConcernsFunction() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.Trigger)
		after, okAfter := e.ObjectNew.(*v1alpha1.Trigger)
		return okBefore && okAfter && (plan.Enabled(before) != plan.Enabled(after) ||
			before.Spec.FunctionRef != after.Spec.FunctionRef ||
			namesHost(before) != namesHost(after) || before.Status.Host != after.Status.Host ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero())
	}}
}

// namesHost tells whether a Trigger asks for a host of its own, and not for that of its Function.
func namesHost(t *v1alpha1.Trigger) bool { return t.Spec.HTTP != nil && t.Spec.HTTP.Host != "" }
