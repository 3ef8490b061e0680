// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/internal/config"
)

// autoscalerPart is a program of KEDA without which functions do not wake.
type autoscalerPart struct {
	// title is what people call it.
	title string
	// service is the Service of its pods.
	service client.ObjectKey
}

// autoscalerParts are in the order in which a call meets them. Those that are not reached by a Service of the cluster are left
// out: nothing here tells whether they run.
func autoscalerParts(cfg config.Scaling) []autoscalerPart {
	var parts []autoscalerPart
	for _, part := range []struct{ title, address string }{
		{"the interceptor of KEDA's HTTP add-on", cfg.Interceptor}, {"the scaler of KEDA's HTTP add-on", cfg.Scaler},
		{"KEDA's operator", cfg.Operator},
	} {
		if service, ok := config.ServiceOf(part.address); ok {
			parts = append(parts, autoscalerPart{part.title, service})
		}
	}
	return parts
}

// newPartsCache adds a cache of the EndpointSlices of the autoscaler's parts to the manager. Without parts it is nil: a cache
// of none would be one of all.
func newPartsCache(mgr ctrl.Manager, parts []autoscalerPart) (cache.Cache, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	namespaces, services := map[string]cache.Config{}, []string{}
	for _, part := range parts {
		namespaces[part.service.Namespace] = cache.Config{}
		services = append(services, part.service.Name)
	}
	slices.Sort(services)
	of, err := labels.NewRequirement(discoveryv1.LabelServiceName, selection.In, slices.Compact(services))
	if err != nil {
		return nil, fmt.Errorf("selecting the autoscaler's Services: %w", err)
	}
	endpoints, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultTransform: cache.TransformStripManagedFields(), DefaultNamespaces: namespaces,
		DefaultLabelSelector: labels.NewSelector().Add(*of),
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of the autoscaler's endpoints: %w", err)
	}
	if err := mgr.Add(endpoints); err != nil {
		return nil, fmt.Errorf("adding the cache of the autoscaler's endpoints: %w", err)
	}
	return endpoints, nil
}

// Away names the first part of the autoscaler that has no ready pod, or is empty. A part whose Service is not known under
// its name is not judged: KEDA may be installed in another way than its own charts do.
func (a *autoscaler) Away(ctx context.Context) (string, error) {
	for _, part := range a.parts {
		list := &discoveryv1.EndpointSliceList{}
		err := a.endpoints.List(ctx, list, client.InNamespace(part.service.Namespace),
			client.MatchingLabels{discoveryv1.LabelServiceName: part.service.Name})
		if err != nil {
			return "", fmt.Errorf("reading the endpoints of %s: %w", part.title, err)
		}
		if len(list.Items) > 0 && !slices.ContainsFunc(list.Items, hasReadyEndpoint) {
			return part.title, nil
		}
	}
	return "", nil
}

func hasReadyEndpoint(slice discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		return ptr.Deref(e.Conditions.Ready, true)
	})
}
