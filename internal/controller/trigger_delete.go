// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// delete removes everything that was made for the Trigger, and then lets it go. It asks nobody but the API server, so that
// it works without the gateway and without the Function. The Jobs of a CronJob go with it; they are deleted by themselves
// too, for those whose CronJob somebody has removed by hand. Namespaces stay.
func (r *TriggerReconciler) delete(ctx context.Context, t *v1alpha1.Trigger) error {
	if !hasFinalizer(t) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	deployNamespace, gateway := naming.DeployNamespace(t.Namespace), r.Config.Gateway
	for _, set := range []struct {
		list      client.ObjectList
		namespace string
	}{
		{&batchv1.CronJobList{}, deployNamespace},
		{&batchv1.JobList{}, deployNamespace},
		{&corev1.ConfigMapList{}, deployNamespace},
		{&networkingv1.IngressList{}, gateway.Namespace},
	} {
		if err := deleteOwned(ctx, r.Client, r.APIReader, t.UID, set.list, set.namespace); err != nil {
			return err
		}
	}
	if gateway.HTTPRoute != nil {
		if err := deleteOwned(ctx, r.Client, r.APIReader, t.UID, httpRouteList(), gateway.Namespace); err != nil {
			return err
		}
	}
	return removeFinalizer(ctx, r.Client, t, v1alpha1.FinalizerTrigger)
}

func hasFinalizer(t *v1alpha1.Trigger) bool {
	return controllerutil.ContainsFinalizer(t, v1alpha1.FinalizerTrigger)
}
