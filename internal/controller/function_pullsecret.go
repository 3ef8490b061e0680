// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/resources"
)

// ensurePullSecret copies the operator's Secret for pulling images to the deploy namespace, where every pod of a Function
// refers to it: those of the Deployment, preflights, jobs.
func (r *FunctionReconciler) ensurePullSecret(ctx context.Context, s *functionScope) error {
	if pullSecretName(r.Config) == "" {
		return nil
	}
	source := resources.Source{Kind: resources.SourceSecret, Name: r.Config.Functions.ImagePullSecretName}
	data, err := r.readSource(ctx, r.Config.Gateway.Namespace, source)
	if err != nil {
		return err
	}
	login, ok := data[corev1.DockerConfigJsonKey]
	if !ok {
		return platform(v1alpha1.ConditionAvailable, v1alpha1.ReasonConfigMissing, fmt.Sprintf(
			"the operator's Secret %s for pulling images does not exist in namespace %s, or has no key %s; it is tried again",
			source.Name, r.Config.Gateway.Namespace, corev1.DockerConfigJsonKey), nil)
	}
	return apply(ctx, r.Client, resources.PullSecret(s.fn.Namespace, login))
}

// removePullSecret takes the copy away with the last Function of the namespace: a login is not left where nothing needs it.
// Whoever comes meanwhile is told of the removal by its watch, and copies it anew.
func (r *FunctionReconciler) removePullSecret(ctx context.Context, fn *v1alpha1.Function) error {
	functions := &v1alpha1.FunctionList{}
	if err := r.List(ctx, functions, client.InNamespace(fn.Namespace)); err != nil {
		return fmt.Errorf("listing the Functions of the namespace: %w", err)
	}
	stays := func(other v1alpha1.Function) bool { return other.UID != fn.UID && other.DeletionTimestamp.IsZero() }
	if pullSecretName(r.Config) == "" || slices.ContainsFunc(functions.Items, stays) {
		return nil
	}
	mirror := &corev1.Secret{}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(resources.PullSecret(fn.Namespace, nil)), mirror)
	if err == nil && mirror.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBySless {
		err = r.Delete(ctx, mirror)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the Secret for pulling images: %w", err)
	}
	return nil
}

// pullSecretName is the name of the Secret that pods in deploy namespaces pull images with, or empty.
func pullSecretName(cfg *config.Config) string {
	if cfg.Functions.ImagePullSecretName == "" {
		return ""
	}
	return resources.PullSecretName
}

// functionsOfSecret leads from a Secret to the Functions that it concerns: those that refer to it, all when it is the
// operator's for pulling images, and those of the namespace when it is a copy of that.
func (r *FunctionReconciler) functionsOfSecret() handler.EventHandler {
	referring := r.functionsReferringTo(resources.SourceSecret)
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		pull := r.Config.Functions.ImagePullSecretName
		switch {
		case pull != "" && obj.GetName() == pull && obj.GetNamespace() == r.Config.Gateway.Namespace:
			return r.functionsIn(ctx, "")
		case obj.GetName() == resources.PullSecretName && obj.GetAnnotations()[resources.UserNamespaceAnnotation] != "":
			return r.functionsOfDeployNamespace(ctx, obj)
		}
		return referring(ctx, obj)
	})
}
