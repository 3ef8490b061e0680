// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"

	httpv1beta1 "github.com/kedacore/http-add-on/operator/apis/http/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
)

// The names of the definitions that tell that KEDA and its HTTP add-on are installed.
var autoscalerDefinitions = []string{"scaledobjects.keda.sh", "interceptorroutes.http.keda.sh"}

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// autoscaler knows whether KEDA is in the cluster, also when it is installed later, and reads its objects. KEDA's kinds are
// watched from the moment on that they exist: a watch of a kind that is not there would keep the manager from starting.
type autoscaler struct {
	definitions client.Reader
	objects     cache.Cache
	// parts are what has to run for functions to wake, and endpoints, nil without parts, holds those of their Services.
	parts      []autoscalerPart
	endpoints  cache.Cache
	controller controller.Controller

	mu      sync.Mutex
	watched bool
}

// newAutoscaler adds a cache of sless' own ScaledObjects and InterceptorRoutes to the manager, and one of what tells whether
// the autoscaler runs.
func newAutoscaler(mgr ctrl.Manager, cfg config.Scaling) (*autoscaler, error) {
	objects, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultTransform:     cache.TransformStripManagedFields(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless}),
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of the autoscaler's objects: %w", err)
	}
	if err := mgr.Add(objects); err != nil {
		return nil, fmt.Errorf("adding the cache of the autoscaler's objects: %w", err)
	}
	parts := autoscalerParts(cfg)
	endpoints, err := newPartsCache(mgr, parts)
	if err != nil {
		return nil, err
	}
	return &autoscaler{definitions: mgr.GetClient(), objects: objects, parts: parts, endpoints: endpoints}, nil
}

// Installed tells whether both kinds exist, and begins to watch them when they do.
func (a *autoscaler) Installed(ctx context.Context) (bool, error) {
	for _, name := range autoscalerDefinitions {
		definition := &metav1.PartialObjectMetadata{}
		definition.SetGroupVersionKind(definitionKind)
		err := a.definitions.Get(ctx, client.ObjectKey{Name: name}, definition)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("looking for the autoscaler: %w", err)
		}
	}
	return true, a.watch()
}

func (a *autoscaler) watch() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watched {
		return nil
	}
	scaledObject := &unstructured.Unstructured{}
	scaledObject.SetGroupVersionKind(resources.ScaledObjectKind)
	for _, obj := range []client.Object{scaledObject, &httpv1beta1.InterceptorRoute{}} {
		err := a.controller.Watch(source.Kind(a.objects, obj, handler.EnqueueRequestsFromMapFunc(functionForObject),
			autoscalerChanged()))
		if err != nil {
			return fmt.Errorf("watching the autoscaler's objects: %w", err)
		}
	}
	a.watched = true
	return nil
}

// Own reads one of the autoscaler's objects from the cache, which holds what sless made.
func (a *autoscaler) Own(ctx context.Context, key client.ObjectKey, into client.Object) (bool, error) {
	err := a.objects.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %s: %w", into, key, err)
	}
	return true, nil
}

// scalingFunctions leads from the definitions of the autoscaler to all Functions that want it.
func (r *FunctionReconciler) scalingFunctions(ctx context.Context, _ client.Object) []reconcile.Request {
	functions := &v1alpha1.FunctionList{}
	if err := r.List(ctx, functions); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range functions.Items {
		if functions.Items[i].Spec.Scaling != nil {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&functions.Items[i])})
		}
	}
	return requests
}

// autoscalerChanged leaves out what KEDA writes into the status of a ScaledObject every second while there are calls.
func autoscalerChanged() predicate.Predicate {
	said := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, known := e.ObjectOld.(*unstructured.Unstructured)
		after, ok := e.ObjectNew.(*unstructured.Unstructured)
		if !known || !ok {
			return false
		}
		oldStatus, oldMessage := plan.ScaledObjectReady(before)
		status, message := plan.ScaledObjectReady(after)
		return oldStatus != status || oldMessage != message
	}}
	deleted := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{},
		predicate.LabelChangedPredicate{}, said, deleted)
}

// isAutoscalerDefinition lets through the definitions of the autoscaler's kinds, when they come and when they go.
func isAutoscalerDefinition() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return slices.Contains(autoscalerDefinitions, e.Object.GetName()) },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(e event.DeleteEvent) bool { return slices.Contains(autoscalerDefinitions, e.Object.GetName()) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
