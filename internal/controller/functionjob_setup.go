// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
)

// functionJobWorkers is the number of FunctionJobs that are worked on at once.
const functionJobWorkers = 8

// SetupWithManager registers the controller and what it watches.
func (r *FunctionJobReconciler) SetupWithManager(mgr ctrl.Manager) error {
	toFunctionJob := handler.EnqueueRequestsFromMapFunc(ownerNamed(v1alpha1.AnnotationFunctionJob))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("functionjob").
		For(&v1alpha1.FunctionJob{}, builder.WithPredicates(changedByUser())).
		Watches(&batchv1.Job{}, toFunctionJob).
		Watches(&corev1.Pod{}, toFunctionJob).
		Watches(&v1alpha1.Function{}, handler.EnqueueRequestsFromMapFunc(r.functionJobsForFunction)).
		WithOptions(controllerOptions(functionJobWorkers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the FunctionJob controller: %w", err)
	}
	return nil
}

// functionJobsForFunction leads from a Function to the FunctionJobs that wait for it, or whose run goes with it.
func (r *FunctionJobReconciler) functionJobsForFunction(ctx context.Context, fn client.Object) []reconcile.Request {
	jobs := &v1alpha1.FunctionJobList{}
	if err := r.List(ctx, jobs, client.InNamespace(fn.GetNamespace()),
		client.MatchingFields{indexJobFunction: fn.GetName()}); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range jobs.Items {
		switch plan.NextRunStep(&jobs.Items[i]) {
		case plan.RunStart, plan.RunFollow:
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&jobs.Items[i])})
		}
	}
	return requests
}
