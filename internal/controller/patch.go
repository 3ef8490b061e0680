// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/naeel/sless/api/v1alpha1"
)

// apply makes the cluster agree with obj by server-side apply, and owns the fields that obj sets. The server writes
// nothing when nothing would change.
func apply(ctx context.Context, c client.Client, obj client.Object) error {
	_, err := applied(ctx, c, obj)
	return err
}

// applied is apply that returns the object as the server has it then.
func applied(ctx context.Context, c client.Client, obj client.Object) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting %T %s: %w", obj, klog.KObj(obj), err)
	}
	delete(fields, "status") // a builder leaves it empty, and an empty field must not be owned
	answer := &unstructured.Unstructured{Object: fields}
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), // which is filled with the answer
		client.FieldOwner(v1alpha1.FieldOwnerController), client.ForceOwnership)
	if err != nil {
		return nil, fmt.Errorf("applying %T %s: %w", obj, klog.KObj(obj), err)
	}
	return answer, nil
}

// patchStatus writes the status of obj as one merge patch, only when it differs from base. The resource version is part
// of the patch, so that a status computed from an old object is never written.
func patchStatus(ctx context.Context, c client.Client, base, obj client.Object, baseStatus, status any) (bool, error) {
	if equality.Semantic.DeepEqual(baseStatus, status) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, obj, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return false, fmt.Errorf("writing the status: %w", err)
	}
	return true, nil
}

// replaceStatus writes the status of obj as a whole, only when it differs from base. Unlike a merge patch it can say null
// inside a status that holds JSON of a user. The resource version is part of the patch.
func replaceStatus(ctx context.Context, c client.Client, obj client.Object, baseStatus, status any) (bool, error) {
	if equality.Semantic.DeepEqual(baseStatus, status) {
		return false, nil
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/metadata/resourceVersion", "value": obj.GetResourceVersion()},
		{"op": "add", "path": "/status", "value": status},
	})
	if err != nil {
		return false, fmt.Errorf("encoding the status: %w", err)
	}
	err = c.Status().Patch(ctx, obj, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(v1alpha1.FieldOwnerController))
	if err != nil {
		return false, fmt.Errorf("writing the status: %w", err)
	}
	return true, nil
}

// statusNotWritten tells what follows when a status could not be written. An object that has changed or gone while the pass
// went on is no fault, so it is not logged as one.
func statusNotWritten(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// addFinalizer adds a finalizer to obj, and tells whether it had to. The resource version is part of the patch.
func addFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) (bool, error) {
	base, ok := obj.DeepCopyObject().(client.Object)
	if !ok || !controllerutil.AddFinalizer(obj, finalizer) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, obj, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return true, fmt.Errorf("adding the finalizer to %s: %w", klog.KObj(obj), err)
	}
	return true, nil
}

// removeFinalizer lets obj go.
func removeFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	base, ok := obj.DeepCopyObject().(client.Object)
	if !ok || !controllerutil.RemoveFinalizer(obj, finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	err := c.Patch(ctx, obj, patch, client.FieldOwner(v1alpha1.FieldOwnerController))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of %s: %w", klog.KObj(obj), err)
	}
	return nil
}

// owns tells whether obj was made for the object with the given UID.
func owns(obj metav1.Object, ownerUID string) bool {
	labels := obj.GetLabels()
	return labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBySless && labels[v1alpha1.LabelOwnerUID] == ownerUID
}
