// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

// triggerWorkers is the number of Triggers that are worked on at once.
const triggerWorkers = 4

// SetupWithManager registers the controller and what it watches.
func (r *TriggerReconciler) SetupWithManager(mgr ctrl.Manager) error {
	toTrigger := handler.EnqueueRequestsFromMapFunc(ownerNamed(v1alpha1.AnnotationTrigger))
	b := ctrl.NewControllerManagedBy(mgr).
		Named("trigger").
		For(&v1alpha1.Trigger{}, builder.WithPredicates(changedByUser())).
		Watches(&v1alpha1.Trigger{}, handler.EnqueueRequestsFromMapFunc(r.triggersOfSameHost),
			builder.WithPredicates(changedByUser())).
		Watches(&v1alpha1.Function{}, handler.EnqueueRequestsFromMapFunc(r.triggersForFunction)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.triggersOfDeployNamespace)).
		Watches(&batchv1.CronJob{}, toTrigger).
		Watches(&batchv1.Job{}, toTrigger).
		WatchesMetadata(&corev1.ConfigMap{}, toTrigger).
		Watches(&networkingv1.Ingress{}, toTrigger)
	if r.Config.Gateway.HTTPRoute != nil {
		// A watch of a kind that is not there would end the manager later, with less to say.
		if _, err := mgr.GetRESTMapper().RESTMapping(resources.HTTPRouteKind.GroupKind(), resources.HTTPRouteKind.Version); err != nil {
			return fmt.Errorf("gateway.httpRoute is configured, but the cluster serves no HTTPRoutes: %w", err)
		}
		route := &unstructured.Unstructured{}
		route.SetGroupVersionKind(resources.HTTPRouteKind)
		b = b.Watches(route, toTrigger)
	}
	err := b.WithOptions(controllerOptions(triggerWorkers)).Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Trigger controller: %w", err)
	}
	return nil
}

// triggersForFunction leads from a Function to the Triggers that refer to it.
func (r *TriggerReconciler) triggersForFunction(ctx context.Context, fn client.Object) []reconcile.Request {
	return r.triggers(ctx, client.InNamespace(fn.GetNamespace()), client.MatchingFields{indexTriggerFunction: fn.GetName()})
}

// triggersOfDeployNamespace leads from a deploy namespace to the Triggers whose CronJobs belong in it.
func (r *TriggerReconciler) triggersOfDeployNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	userNamespace := obj.GetAnnotations()[resources.UserNamespaceAnnotation]
	if userNamespace == "" {
		return nil
	}
	return r.triggers(ctx, client.InNamespace(userNamespace))
}

// triggersOfSameHost leads from a Trigger to the others that ask for its host: they may have to give it up, or may take it
// over.
func (r *TriggerReconciler) triggersOfSameHost(ctx context.Context, obj client.Object) []reconcile.Request {
	trigger, ok := obj.(*v1alpha1.Trigger)
	if !ok {
		return nil
	}
	host, _ := triggerHost(trigger, r.Config.Gateway)
	if host == "" {
		return nil
	}
	return r.triggers(ctx, client.MatchingFields{indexTriggerHost: host})
}

func (r *TriggerReconciler) triggers(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	return requestsOf(ctx, r, &v1alpha1.TriggerList{}, options...)
}
