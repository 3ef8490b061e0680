// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// find reads an object from the cache, which holds what sless made, and then past it.
func find(ctx context.Context, cached, direct client.Reader, key client.ObjectKey, into client.Object) (bool, error) {
	err := cached.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		err = direct.Get(ctx, key, into)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %s: %w", into, key, err)
	}
	return true, nil
}

// deleteOwned deletes the listed objects that were made for the owner. reader may be one that reads past the cache, which
// may not yet hold what an earlier pass created.
func deleteOwned(
	ctx context.Context, c client.Client, reader client.Reader, owner types.UID, list client.ObjectList, namespace string,
) error {
	owned := client.MatchingLabels{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless, v1alpha1.LabelOwnerUID: string(owner),
	}
	err := reader.List(ctx, list, client.InNamespace(namespace), owned)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // a kind whose definition was taken away has no objects any more
	}
	if err != nil {
		return fmt.Errorf("listing %T: %w", list, err)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", item)
		}
		err := c.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %T %s: %w", obj, obj.GetName(), err)
		}
		return nil
	})
}

// recordReady sends one event when the Ready condition changed its status or reason.
func recordReady(recorder events.EventRecorder, obj client.Object, was, is metav1.Condition) {
	if was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	if is.Status == metav1.ConditionFalse && is.Reason != v1alpha1.ReasonDisabled {
		kind = corev1.EventTypeWarning
	}
	recorder.Eventf(obj, nil, kind, is.Reason, "Reconcile", "%s", truncate(is.Message, maxEventNote))
}
