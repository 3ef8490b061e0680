// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/naeel/sless/api/v1alpha1"
)

// FunctionJobReconciler answers FunctionJobs. This version declares them and runs none, and says so.
type FunctionJobReconciler struct {
	client.Client
	Clock clock.PassiveClock
}

var _ reconcile.Reconciler = (*FunctionJobReconciler)(nil)

// +kubebuilder:rbac:groups=sless.io,resources=functionjobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=sless.io,resources=functionjobs/status,verbs=get;update;patch

// Reconcile makes one pass over a FunctionJob.
func (r *FunctionJobReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &v1alpha1.FunctionJob{}
	if err := r.Get(ctx, req.NamespacedName, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !job.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	base := job.DeepCopy()
	job.Status = r.computeStatus(job)
	_, err := patchStatus(ctx, r.Client, base, job, base.Status, job.Status)
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

func (r *FunctionJobReconciler) computeStatus(job *v1alpha1.FunctionJob) v1alpha1.FunctionJobStatus {
	status := *job.Status.DeepCopy()
	status.ObservedGeneration = job.Generation
	stalled := failed(v1alpha1.ReasonSucceeded, "")
	if job.Spec.RunID == 0 {
		status.Phase, status.Message = v1alpha1.JobPhaseSkipped, "runID is 0: declared, not run"
	} else {
		status.Phase, status.Message = v1alpha1.JobPhasePending, "this version does not run FunctionJobs"
		stalled = succeeded(v1alpha1.ReasonNotImplemented, status.Message)
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionStalled, Status: stalled.status, Reason: stalled.reason, Message: stalled.message,
		ObservedGeneration: job.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
	return status
}

// SetupWithManager registers the controller.
func (r *FunctionJobReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("functionjob").
		For(&v1alpha1.FunctionJob{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the FunctionJob controller: %w", err)
	}
	return nil
}
