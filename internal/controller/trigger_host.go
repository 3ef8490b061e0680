// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
)

// indexTriggerHost finds Triggers by the host that they ask for, in whatever namespace they are.
const indexTriggerHost = "sless.io/host"

// setupTriggerIndex adds the index by host, which depends on the configuration.
func setupTriggerIndex(ctx context.Context, indexer client.FieldIndexer, gateway config.Gateway) error {
	err := indexer.IndexField(ctx, &v1alpha1.Trigger{}, indexTriggerHost, func(obj client.Object) []string {
		trigger, ok := obj.(*v1alpha1.Trigger)
		if !ok {
			return nil
		}
		if host, _ := triggerHost(trigger, gateway); host != "" {
			return []string{host}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Triggers by host: %w", err)
	}
	return nil
}

// ensureHost leads the host of an http Trigger to the gateway, unless it is somebody else's. A Trigger that is switched off
// keeps its host: calls of it are told so.
func (r *TriggerReconciler) ensureHost(ctx context.Context, s *triggerScope) error {
	host, derived := triggerHost(s.trigger, r.Config.Gateway)
	if host == "" {
		return r.deleteHostRoutes(ctx, s.trigger)
	}
	if why := reservedHost(s.trigger, host, r.Config.Gateway); why != "" {
		return r.refuseHost(ctx, s, "host %s %s; choose another host", host, why)
	}
	rivals := &v1alpha1.TriggerList{}
	if err := r.List(ctx, rivals, client.MatchingFields{indexTriggerHost: host}); err != nil {
		return fmt.Errorf("listing the Triggers of host %s: %w", host, err)
	}
	holder := plan.HostHolder(slices.DeleteFunc(rivals.Items, func(t v1alpha1.Trigger) bool {
		return reservedHost(&t, host, r.Config.Gateway) != "" // it cannot have the host, and keeps it from nobody
	}))
	switch {
	case holder == nil || holder.UID == s.trigger.UID:
		s.host = host
		return r.ensureHostRoute(ctx, s)
	case derived && holder.Namespace == s.trigger.Namespace && holder.Spec.FunctionRef == s.trigger.Spec.FunctionRef:
		// Another Trigger of the same Function has made the way, and it is meant for all of them.
		s.host = host
		return r.deleteHostRoutes(ctx, s.trigger)
	case holder.Namespace == s.trigger.Namespace:
		return r.refuseHost(ctx, s, "host %s belongs to the older Trigger %s; choose another host, or delete that Trigger",
			host, holder.Name)
	default:
		return r.refuseHost(ctx, s, "host %s belongs to an older Trigger of another namespace; choose another host", host)
	}
}

// refuseHost takes back what an earlier pass may have made, and says why.
func (r *TriggerReconciler) refuseHost(ctx context.Context, s *triggerScope, format string, args ...any) error {
	if err := r.deleteHostRoutes(ctx, s.trigger); err != nil {
		return err
	}
	return stalled(v1alpha1.ConditionReady, v1alpha1.ReasonHostConflict, format, args...)
}

// ensureHostRoute makes the Ingress or the HTTPRoute of the host, and removes the other one.
func (r *TriggerReconciler) ensureHostRoute(ctx context.Context, s *triggerScope) error {
	gateway, t := r.Config.Gateway, s.trigger
	var wanted, existing client.Object = resources.Ingress(t, s.host, gateway), &networkingv1.Ingress{}
	if gateway.HTTPRoute != nil {
		if err := deleteOwned(ctx, r.Client, r.Client, t.UID, &networkingv1.IngressList{}, gateway.Namespace); err != nil {
			return err
		}
		route := &unstructured.Unstructured{}
		route.SetGroupVersionKind(resources.HTTPRouteKind)
		wanted, existing = resources.HTTPRoute(t, s.host, gateway), route
	}
	kind := wanted.GetObjectKind().GroupVersionKind().Kind
	found, err := find(ctx, r.Client, r.APIReader, client.ObjectKeyFromObject(wanted), existing)
	if err != nil {
		return err
	}
	if found && !owns(existing, string(t.UID)) {
		return nameConflict(kind, client.ObjectKeyFromObject(wanted))
	}
	route, err := applied(ctx, r.Client, wanted)
	if err != nil {
		return triggerFault(err, kind)
	}
	if gateway.HTTPRoute != nil { // an Ingress does not tell whether anybody serves it
		s.unrouted = plan.RouteFault(route)
	}
	return nil
}

// deleteHostRoutes removes what leads a host to the gateway for this Trigger.
func (r *TriggerReconciler) deleteHostRoutes(ctx context.Context, t *v1alpha1.Trigger) error {
	namespace := r.Config.Gateway.Namespace
	if err := deleteOwned(ctx, r.Client, r.Client, t.UID, &networkingv1.IngressList{}, namespace); err != nil {
		return err
	}
	if r.Config.Gateway.HTTPRoute == nil || !hasFinalizer(t) {
		return nil
	}
	return deleteOwned(ctx, r.Client, r.APIReader, t.UID, httpRouteList(), namespace)
}

func httpRouteList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	kind := resources.HTTPRouteKind
	kind.Kind += "List"
	list.SetGroupVersionKind(kind)
	return list
}
