// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// CachedResolver resolves from an informer's cache of all Functions and Triggers. It implements Resolver.
type CachedResolver struct {
	cache         cache.Cache
	clusterDomain string
	concurrency   Concurrency
	onDelete      func(types.NamespacedName)
	synced        atomic.Bool
	*triggerTable
}

// NewCachedResolver returns a resolver for the cluster of restConfig. clusterDomain completes the names of Services,
// such as cluster.local; empty leaves that to the resolver's search list. concurrency knows the runtimes. onDelete, which may be
// nil, is told of each Function that is gone. Nothing is resolved before Start has run.
func NewCachedResolver(
	restConfig *rest.Config, clusterDomain string, concurrency Concurrency, onDelete func(types.NamespacedName),
) (*CachedResolver, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("adding the sless types to a scheme: %w", err)
	}
	// The mappings that are needed are known. Asking the cluster would fail when the gateway starts before the CRDs are
	// there or while the API server is away; the informer keeps trying.
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion})
	mapper.Add(v1alpha1.GroupVersion.WithKind("Function"), meta.RESTScopeNamespace)
	mapper.Add(v1alpha1.GroupVersion.WithKind("Trigger"), meta.RESTScopeNamespace)
	noCopy := true // resolving reads only, and a copy per call is the most expensive part of it
	functions, err := cache.New(restConfig, cache.Options{
		Scheme:                      scheme,
		Mapper:                      mapper,
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.Function{}: {Transform: trimFunction, UnsafeDisableDeepCopy: &noCopy},
			&v1alpha1.Trigger{}:  {Transform: trimTrigger, UnsafeDisableDeepCopy: &noCopy},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of Functions: %w", err)
	}
	return &CachedResolver{
		cache: functions, clusterDomain: clusterDomain, concurrency: concurrency, onDelete: onDelete, triggerTable: newTriggerTable(),
	}, nil
}

// Start fills the cache and keeps it current until ctx ends.
func (r *CachedResolver) Start(ctx context.Context) error {
	informer, err := r.cache.GetInformer(ctx, &v1alpha1.Function{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching Functions: %w", err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: r.deleted}); err != nil {
		return fmt.Errorf("watching Functions: %w", err)
	}
	triggers, err := r.cache.GetInformer(ctx, &v1alpha1.Trigger{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching Triggers: %w", err)
	}
	filled, err := triggers.AddEventHandler(r.handler())
	if err != nil {
		return fmt.Errorf("watching Triggers: %w", err)
	}
	go func() {
		r.synced.Store(r.cache.WaitForCacheSync(ctx) && toolscache.WaitForCacheSync(ctx.Done(), filled.HasSynced))
	}()
	if err := r.cache.Start(ctx); err != nil {
		return fmt.Errorf("watching Functions: %w", err)
	}
	return nil
}

// Ready reports whether all Functions and Triggers are known.
func (r *CachedResolver) Ready() bool {
	return r.synced.Load()
}

// Resolve returns the route of fn, or a *Refusal.
func (r *CachedResolver) Resolve(ctx context.Context, fn types.NamespacedName) (Route, error) {
	var function v1alpha1.Function
	if err := r.cache.Get(ctx, fn, &function); err != nil {
		if apierrors.IsNotFound(err) {
			return Route{}, functionNotFound(fn)
		}
		return Route{}, fmt.Errorf("reading function %s from the cache: %w", fn, err)
	}
	route, refusal := routeFor(&function, r.clusterDomain, r.concurrency)
	if refusal != nil {
		return Route{}, refusal
	}
	return route, nil
}

func (r *CachedResolver) deleted(obj any) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if fn, ok := obj.(*v1alpha1.Function); ok && r.onDelete != nil {
		r.onDelete(client.ObjectKeyFromObject(fn))
	}
}

// trimFunction drops what routing does not need before a Function enters the cache, above all the source: thousands of
// functions then take a few megabytes. Code that needs more of a Function must not read it from this cache.
func trimFunction(obj any) (any, error) {
	fn, ok := obj.(*v1alpha1.Function)
	if !ok {
		return obj, nil // a tombstone of the informer
	}
	fn.ManagedFields = nil
	fn.Annotations = nil // kubectl keeps the whole source in one of them
	fn.Spec = v1alpha1.FunctionSpec{
		Runtime: fn.Spec.Runtime, TimeoutSeconds: fn.Spec.TimeoutSeconds, Concurrency: fn.Spec.Concurrency,
	}
	fn.Status = v1alpha1.FunctionStatus{
		Conditions:         fn.Status.Conditions,
		ObservedGeneration: fn.Status.ObservedGeneration,
		Phase:              fn.Status.Phase,
		Replicas:           fn.Status.Replicas,
	}
	return fn, nil
}
