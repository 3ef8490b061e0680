// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
)

// controllerOptions are those of a controller that works on so many objects at once.
func controllerOptions(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax),
	}
}

// ownerNamed leads from an object that sless made to the one for which it was made, which an annotation names as
// "<namespace>/<name>".
func ownerNamed(annotation string) handler.MapFunc {
	return func(_ context.Context, obj client.Object) []reconcile.Request {
		namespace, name, ok := strings.Cut(obj.GetAnnotations()[annotation], "/")
		if !ok || namespace == "" || name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
	}
}

// functionForObject leads from an object that sless made to its Function.
var functionForObject = ownerNamed(v1alpha1.AnnotationOwner)

// requestsOf asks for a look at every object of a list that is of the cache, so that listing it fails with the process only.
func requestsOf(ctx context.Context, reader client.Reader, list client.ObjectList, options ...client.ListOption) []reconcile.Request {
	if err := reader.List(ctx, list, options...); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, 0, meta.LenList(list))
	_ = meta.EachListItem(list, func(item runtime.Object) error { // the function fails for nothing
		if obj, ok := item.(client.Object); ok {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
		return nil
	})
	return requests
}

// functionsForBuild leads from a build or fetch to all Functions that its state may concern:
//   - the one that started it,
//   - those of the same namespace that wait for a build, since they may share it,
//   - those whose builds wait for a free slot, since their positions may have changed,
//   - those whose turn it is to fetch, of so many fetches that may run at once.
func functionsForBuild(reader client.Reader, maxFetches int, now func() time.Time) func(context.Context, client.Object) []reconcile.Request {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		requests := functionForObject(ctx, obj)
		namespace, _, ok := strings.Cut(obj.GetAnnotations()[v1alpha1.AnnotationOwner], "/")
		if !ok {
			return nil // a Job of something else, such as a Trigger
		}
		functions := &v1alpha1.FunctionList{}
		if err := reader.List(ctx, functions, client.InNamespace(namespace)); err != nil {
			return requests
		}
		for i := range functions.Items {
			if waitsForBuild(&functions.Items[i]) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&functions.Items[i])})
			}
		}
		jobs, fetches := &batchv1.JobList{}, &batchv1.JobList{}
		if err := reader.List(ctx, jobs, client.InNamespace(obj.GetNamespace()),
			client.MatchingLabels(resources.ComponentLabels(resources.ComponentBuild))); err != nil {
			return requests
		}
		for i := range jobs.Items {
			if ptr.Deref(jobs.Items[i].Spec.Suspend, false) {
				requests = append(requests, functionForObject(ctx, &jobs.Items[i])...)
			}
		}
		if err := reader.List(ctx, fetches, client.InNamespace(obj.GetNamespace()),
			client.MatchingLabels(resources.ComponentLabels(resources.ComponentGit))); err != nil {
			return requests
		}
		for _, job := range plan.DueJobs(fetches.Items, maxFetches, now()) {
			requests = append(requests, functionForObject(ctx, job)...)
		}
		return requests
	}
}

// buildUnderWay are the reasons of Built while there is a build that may still end well.
var buildUnderWay = map[string]bool{
	v1alpha1.ReasonBuilding: true, v1alpha1.ReasonBuildQueued: true, v1alpha1.ReasonUnschedulable: true,
	v1alpha1.ReasonQuotaExceeded: true, v1alpha1.ReasonPodsRefused: true,
}

func waitsForBuild(fn *v1alpha1.Function) bool {
	c := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionBuilt)
	return c != nil && buildUnderWay[c.Reason]
}

// functionsOfDeployNamespace leads from a deploy namespace, or from its policy, to the Functions that run in it.
func (r *FunctionReconciler) functionsOfDeployNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	userNamespace := obj.GetAnnotations()[resources.UserNamespaceAnnotation]
	if userNamespace == "" {
		return nil
	}
	return r.functionsIn(ctx, userNamespace)
}

// functionsIn returns the Functions of a namespace, or of all.
func (r *FunctionReconciler) functionsIn(ctx context.Context, namespace string) []reconcile.Request {
	return requestsOf(ctx, r, &v1alpha1.FunctionList{}, client.InNamespace(namespace))
}

// changedByUser lets through what a user changed: the spec, the annotations that ask for something, and deletion.
func changedByUser() predicate.Predicate {
	annotations := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
		return before[v1alpha1.AnnotationReconcileAt] != after[v1alpha1.AnnotationReconcileAt] ||
			before[v1alpha1.AnnotationRestartedAt] != after[v1alpha1.AnnotationRestartedAt]
	}}
	deleted := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
	return predicate.Or(predicate.GenerationChangedPredicate{}, annotations, deleted)
}
