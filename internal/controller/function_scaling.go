// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	httpv1beta1 "github.com/kedacore/http-add-on/operator/apis/http/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
)

// fieldOwnerReplicas owns spec.replicas of a Deployment between sless and the autoscaler.
const fieldOwnerReplicas = "sless-replicas"

// observeScaling finds out who sets the number of replicas.
func (r *FunctionReconciler) observeScaling(ctx context.Context, s *functionScope) error {
	installed, err := r.scaler.Installed(ctx)
	s.scaling = plan.ScalingModeOf(s.fn, installed)
	if err != nil || !installed {
		return err
	}
	s.autoscaler = true
	if s.scaling == plan.ScalingAuto {
		if s.away, err = r.scaler.Away(ctx); err != nil {
			return err
		}
	}
	scaledObject := newScaledObject()
	found, err := r.scaler.Own(ctx, client.ObjectKey{Namespace: s.deployNamespace(), Name: s.fn.Name}, scaledObject)
	if err != nil {
		return err
	}
	if found && owns(scaledObject, string(s.fn.UID)) {
		s.scaledObject = scaledObject
	}
	return nil
}

// handReplicasOver is done before the Deployment is applied. Towards the autoscaler: another field owner takes spec.replicas
// first. Else it would fall back to 1 when sless, its only owner, lets go of it. Away from the autoscaler: its objects go
// first, so that it does not set replicas any more. Nothing waits for them to be gone, since their finalizer needs KEDA.
func (r *FunctionReconciler) handReplicasOver(ctx context.Context, s *functionScope) error {
	switch {
	case s.scaling != plan.ScalingAuto:
		return r.removeScaling(ctx, s)
	case s.deployment == nil || s.scaledObject != nil:
		return nil
	}
	holder := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"replicas": int64(ptr.Deref(s.deployment.Spec.Replicas, 1))},
	}}
	holder.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	holder.SetNamespace(s.deployment.Namespace)
	holder.SetName(s.deployment.Name)
	err := r.Apply(ctx, client.ApplyConfigurationFromUnstructured(holder), client.FieldOwner(fieldOwnerReplicas),
		client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("handing the number of replicas over: %w", err)
	}
	return nil
}

// pauseScaling tells the autoscaler to hold the Function at zero, or to let it go. ensureScaling does the rest.
func (r *FunctionReconciler) pauseScaling(ctx context.Context, s *functionScope) error {
	if s.scaledObject == nil || !s.scaledObject.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if resources.Paused(s.scaledObject) == (s.disabled != "") {
		return nil
	}
	base := s.scaledObject.DeepCopy()
	resources.Pause(s.scaledObject, s.disabled != "")
	if err := r.Patch(ctx, s.scaledObject, client.MergeFrom(base), client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return fmt.Errorf("pausing the autoscaler: %w", err)
	}
	return nil
}

// ensureScaling makes the objects of the autoscaler agree with the Function.
func (r *FunctionReconciler) ensureScaling(ctx context.Context, s *functionScope) error {
	if s.scaling != plan.ScalingAuto {
		return nil
	}
	options := resources.ScalingOptions{
		Scaler:             r.Config.Scaling.Scaler,
		StartupTimeout:     time.Duration(r.Config.Scaling.StartupTimeoutSeconds) * time.Second,
		PollingInterval:    time.Duration(r.Config.Scaling.PollingIntervalSeconds) * time.Second,
		DefaultConcurrency: s.runtime.DefaultConcurrency,
		Mirrors:            slices.Collect(maps.Values(s.mirrors)),
		Paused:             s.disabled != "",
	}
	route := resources.InterceptorRoute(s.fn, options)
	if err := r.applyOwnedOf(ctx, s, r.scaler.objects, route, &httpv1beta1.InterceptorRoute{}); err != nil {
		return err
	}
	return r.applyOwnedOf(ctx, s, r.scaler.objects, resources.ScaledObject(s.fn, options), newScaledObject())
}

// removeScaling deletes the objects of the autoscaler, the one that sets replicas first.
func (r *FunctionReconciler) removeScaling(ctx context.Context, s *functionScope) error {
	if !s.autoscaler {
		return nil
	}
	key := client.ObjectKey{Namespace: s.deployNamespace(), Name: s.fn.Name}
	for _, obj := range []client.Object{newScaledObject(), &httpv1beta1.InterceptorRoute{}} {
		found, err := r.scaler.Own(ctx, key, obj)
		if err != nil {
			return err
		}
		if !found || !owns(obj, string(s.fn.UID)) || !obj.GetDeletionTimestamp().IsZero() {
			continue
		}
		if err := r.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %T %s: %w", obj, key, err)
		}
	}
	return nil
}

func newScaledObject() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(resources.ScaledObjectKind)
	return obj
}

// deleteScaling deletes what the autoscaler has for a Function that is being deleted. Without KEDA there is nothing.
func (r *FunctionReconciler) deleteScaling(ctx context.Context, owner types.UID, namespace string) error {
	installed, err := r.scaler.Installed(ctx)
	if err != nil || !installed {
		return err
	}
	scaledObjects := &unstructured.UnstructuredList{}
	scaledObjects.SetGroupVersionKind(resources.ScaledObjectKind.GroupVersion().WithKind(resources.ScaledObjectKind.Kind + "List"))
	for _, list := range []client.ObjectList{scaledObjects, &httpv1beta1.InterceptorRouteList{}} {
		if err := deleteOwned(ctx, r.Client, r.APIReader, owner, list, namespace); err != nil {
			return err
		}
	}
	return nil
}
