// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// deleteTimeout bounds one attempt, so that a slow API server cannot hold a worker for ever.
const deleteTimeout = 30 * time.Second

// delete removes everything that was made for the Function, and then lets it go. It asks nobody but the API server, so
// that it works while the registry and the object store are down. Objects are found by the Function's UID alone: what
// carries its name but another UID is left alone. Namespaces stay.
func (r *FunctionReconciler) delete(ctx context.Context, fn *v1alpha1.Function) error {
	if !controllerutil.ContainsFinalizer(fn, v1alpha1.FinalizerFunction) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	deployNamespace, builds := naming.DeployNamespace(fn.Namespace), r.Config.Builds.Namespace
	for _, set := range []struct {
		list      client.ObjectList
		namespace string
	}{
		{&appsv1.DeploymentList{}, deployNamespace},
		{&corev1.ServiceList{}, deployNamespace},
		{&corev1.SecretList{}, deployNamespace},
		{&corev1.ConfigMapList{}, deployNamespace},
		{&batchv1.JobList{}, builds},
	} {
		if err := r.deleteOwned(ctx, fn, set.list, set.namespace); err != nil {
			return err
		}
	}
	r.recordDeletion(ctx, fn)
	base := fn.DeepCopy()
	controllerutil.RemoveFinalizer(fn, v1alpha1.FinalizerFunction)
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	err := r.Patch(ctx, fn, patch, client.FieldOwner(v1alpha1.FieldOwnerController))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

// deleteOwned deletes the listed objects of the Function. It reads past the cache, which may not yet hold what an earlier
// pass created.
func (r *FunctionReconciler) deleteOwned(
	ctx context.Context, fn *v1alpha1.Function, list client.ObjectList, namespace string,
) error {
	owned := client.MatchingLabels{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless, v1alpha1.LabelOwnerUID: string(fn.UID),
	}
	if err := r.APIReader.List(ctx, list, client.InNamespace(namespace), owned); err != nil {
		return fmt.Errorf("listing %T: %w", list, err)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", item)
		}
		err := r.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %T %s: %w", obj, obj.GetName(), err)
		}
		return nil
	})
}
