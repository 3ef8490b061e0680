// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

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
	if err := r.deleteScaling(ctx, fn.UID, deployNamespace); err != nil {
		return err
	}
	for _, set := range []struct {
		list      client.ObjectList
		namespace string
	}{
		{&appsv1.DeploymentList{}, deployNamespace},
		{&corev1.ServiceList{}, deployNamespace},
		{&corev1.SecretList{}, deployNamespace},
		{&corev1.ConfigMapList{}, deployNamespace},
		{&batchv1.JobList{}, builds},
		{&batchv1.JobList{}, deployNamespace},
	} {
		if err := deleteOwned(ctx, r.Client, r.APIReader, fn.UID, set.list, set.namespace); err != nil {
			return err
		}
	}
	if err := r.removePullSecret(ctx, fn); err != nil {
		return err
	}
	r.recordDeletion(ctx, fn)
	return removeFinalizer(ctx, r.Client, fn, v1alpha1.FinalizerFunction)
}
