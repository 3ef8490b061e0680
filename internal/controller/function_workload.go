// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
)

// observeWorkload reads what runs now, whatever version it is.
func (r *FunctionReconciler) observeWorkload(ctx context.Context, s *functionScope) error {
	deployment := &appsv1.Deployment{}
	err := r.Get(ctx, client.ObjectKey{Namespace: s.deployNamespace(), Name: s.fn.Name}, deployment)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the Deployment: %w", err)
	case !owns(deployment, string(s.fn.UID)):
		return nil
	}
	s.deployment = deployment
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(s.deployNamespace()),
		client.MatchingLabels(resources.SelectorLabels(s.fn))); err != nil {
		return fmt.Errorf("listing the pods: %w", err)
	}
	s.pods = pods.Items
	return nil
}

// ensureDeployNamespace makes the namespace of the workloads, with what keeps tenants apart.
func (r *FunctionReconciler) ensureDeployNamespace(ctx context.Context, s *functionScope) error {
	wanted := resources.DeployNamespace(s.fn.Namespace)
	existing := &corev1.Namespace{}
	found, err := find(ctx, r.Client, r.APIReader, client.ObjectKeyFromObject(wanted), existing)
	if err != nil {
		return err
	}
	if found && existing.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBySless {
		return unwatched(v1alpha1.ConditionAvailable, v1alpha1.ReasonNameConflict,
			"namespace %s exists and was not made by sless; label it %s=%s to let sless use it", wanted.Name,
			v1alpha1.LabelManagedBy, v1alpha1.ManagedBySless)
	}
	if other := existing.Annotations[resources.UserNamespaceAnnotation]; found && other != "" && other != s.fn.Namespace {
		return unwatched(v1alpha1.ConditionAvailable, v1alpha1.ReasonNameConflict,
			"namespace %s belongs to the functions of namespace %s; use a namespace with a shorter name", wanted.Name, other)
	}
	if err := apply(ctx, r.Client, wanted); err != nil {
		return err
	}
	callers := []string{r.Config.Gateway.Namespace}
	if s.autoscaler {
		callers = append(callers, r.Config.Scaling.Namespace)
	}
	return apply(ctx, r.Client, resources.NetworkPolicy(s.fn.Namespace, callers...))
}

// ensureWorkload makes the Deployment and the Service agree with the Function.
func (r *FunctionReconciler) ensureWorkload(ctx context.Context, s *functionScope) error {
	if err := r.applyOwned(ctx, s, resources.Service(s.fn), &corev1.Service{}); err != nil {
		return err
	}
	options := podOptions(r.Config, s.runtime, s.mirrors)
	options.Image, options.SourceDigest, options.Entrypoint = s.image, s.codeDigest(), s.entrypoint
	options.Replicas = wantedReplicas(s)
	deployment := resources.Deployment(s.fn, options)
	s.revision = deployment.Labels[v1alpha1.LabelRevision]
	if err := r.ensureProven(ctx, s, options); err != nil {
		return err
	}
	return r.applyOwned(ctx, s, deployment, &appsv1.Deployment{})
}

// wantedReplicas is the number of replicas: none while the Triggers switch the Function off; else, while no autoscaler is
// installed, the fixed one, or enough to answer calls. It is the one place that decides. nil leaves the number to an
// autoscaler.
func wantedReplicas(s *functionScope) *int32 {
	if s.scaling == plan.ScalingAuto {
		return nil
	}
	if s.disabled != "" {
		return ptr.To[int32](0)
	}
	fn := s.fn
	if fn.Spec.Replicas != nil {
		return fn.Spec.Replicas
	}
	if fn.Spec.Scaling != nil {
		return new(max(1, ptr.Deref(fn.Spec.Scaling.MinReplicas, 0)))
	}
	return ptr.To[int32](1)
}

// applyOwned applies an object of the Function, unless one of that name belongs to somebody else.
func (r *FunctionReconciler) applyOwned(ctx context.Context, s *functionScope, wanted, existing client.Object) error {
	return r.applyOwnedOf(ctx, s, r.Client, wanted, existing)
}

// applyOwnedOf does that for an object that the given cache holds.
func (r *FunctionReconciler) applyOwnedOf(
	ctx context.Context, s *functionScope, cached client.Reader, wanted, existing client.Object,
) error {
	found, err := find(ctx, cached, r.APIReader, client.ObjectKeyFromObject(wanted), existing)
	if err != nil {
		return err
	}
	if found && !owns(existing, string(s.fn.UID)) {
		return unwatched(v1alpha1.ConditionAvailable, v1alpha1.ReasonNameConflict,
			"%s %s/%s exists and does not belong to this Function; delete it or rename the Function",
			wanted.GetObjectKind().GroupVersionKind().Kind, wanted.GetNamespace(), wanted.GetName())
	}
	if err := apply(ctx, r.Client, wanted); err != nil {
		return specFault(err)
	}
	return nil
}

// specFault tells what the API server refuses because of the Function's spec from faults of the platform.
func specFault(err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if ok && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) {
		return stalled(v1alpha1.ConditionAvailable, v1alpha1.ReasonInvalidSpec,
			"the Deployment of this spec is refused: %s", status.Status().Message)
	}
	return err
}
