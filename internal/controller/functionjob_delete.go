// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/naming"
)

// delete ends a run that goes on, removes everything that was made for the FunctionJob, and lets it go when no pod of it
// runs any more. So a FunctionJob that is made anew never runs beside the old one.
func (r *FunctionJobReconciler) delete(ctx context.Context, fj *v1alpha1.FunctionJob) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(fj, v1alpha1.FinalizerFunctionJob) {
		return ctrl.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	namespace := naming.DeployNamespace(fj.Namespace)
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}} {
		if err := deleteOwned(ctx, r.Client, r.APIReader, fj.UID, list, namespace); err != nil {
			return ctrl.Result{}, err
		}
	}
	left := fj.DeletionTimestamp.Add(plan.StopTimeout).Sub(r.Clock.Now())
	running, err := r.podsRun(ctx, fj)
	if err != nil {
		return ctrl.Result{}, err
	}
	if running && left > 0 {
		return ctrl.Result{RequeueAfter: min(left, plan.StopTimeout)}, nil
	}
	return ctrl.Result{}, removeFinalizer(ctx, r.Client, fj, v1alpha1.FinalizerFunctionJob)
}

func (r *FunctionJobReconciler) podsRun(ctx context.Context, fj *v1alpha1.FunctionJob) (bool, error) {
	pods := &corev1.PodList{}
	err := r.APIReader.List(ctx, pods, client.InNamespace(naming.DeployNamespace(fj.Namespace)),
		client.MatchingLabels(resources.RunOwnerLabels(string(fj.UID))))
	if err != nil {
		return false, fmt.Errorf("listing the pods: %w", err)
	}
	return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
	}), nil
}

// removeEarlierRuns deletes the Jobs, and with them the logs, of the runs before the one that the status speaks of. It comes
// after the status was written, so that the end of a run is never looked for where it was removed.
func (r *FunctionJobReconciler) removeEarlierRuns(ctx context.Context, s *functionJobScope) error {
	jobs := &batchv1.JobList{}
	err := r.List(ctx, jobs, client.InNamespace(s.deployNamespace()),
		client.MatchingLabels(resources.RunOwnerLabels(string(s.fj.UID))))
	if err != nil {
		return fmt.Errorf("listing earlier runs: %w", err)
	}
	for i := range jobs.Items {
		if runID := plan.RunID(&jobs.Items[i]); runID == 0 || runID >= s.fj.Status.RunID {
			continue
		}
		err := r.Delete(ctx, &jobs.Items[i], client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the Job of an earlier run: %w", err)
		}
	}
	return nil
}

// removeInputs deletes the events and the copies of Secrets and ConfigMaps of the runs up to one that has ended: they need
// them no more. A later run may have begun without the status saying so yet.
func (r *FunctionJobReconciler) removeInputs(ctx context.Context, s *functionJobScope, ended int64) error {
	for _, kind := range []string{"SecretList", "ConfigMapList"} {
		list := metadataList(kind)
		err := r.List(ctx, list, client.InNamespace(s.deployNamespace()),
			client.MatchingLabels(resources.RunOwnerLabels(string(s.fj.UID))))
		if err != nil {
			return fmt.Errorf("listing what a run was given: %w", err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			obj, ok := item.(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object", item)
			}
			if plan.RunID(obj) > ended {
				return nil
			}
			return client.IgnoreNotFound(r.Delete(ctx, obj))
		})
		if err != nil {
			return fmt.Errorf("deleting what a run was given: %w", err)
		}
	}
	return nil
}
