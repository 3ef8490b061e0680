// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// NewClient returns a client for Functions that reads from the cluster and not from a cache.
func NewClient(restConfig *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("adding the sless types to a scheme: %w", err)
	}
	// The one mapping that is needed is known, so the cluster need not be asked.
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion})
	mapper.Add(v1alpha1.GroupVersion.WithKind("Function"), meta.RESTScopeNamespace)
	c, err := client.New(restConfig, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client for Functions: %w", err)
	}
	return c, nil
}

// uploadTarget returns a Function that takes uploads.
func (s *Server) uploadTarget(ctx context.Context, namespace, name string) (*v1alpha1.Function, error) {
	fn := &v1alpha1.Function{}
	err := s.cfg.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, fn)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fail(http.StatusNotFound,
			"function %s/%s does not exist; create it first, with source: {upload: {}}", namespace, name)
	case err != nil:
		return nil, explainCluster(fmt.Errorf("reading function %s/%s: %w", namespace, name, err))
	case fn.DeletionTimestamp != nil:
		return nil, fail(http.StatusConflict, "function %s/%s is being deleted", namespace, name)
	case fn.Spec.Source.Upload == nil:
		return nil, fail(http.StatusConflict,
			"function %s/%s has another source; set spec.source to {upload: {}} and upload again", namespace, name)
	}
	return fn, nil
}

// setUpload points a Function at stored code by server-side apply, so that the fields belong to the gateway and the
// user's next apply leaves them alone.
func (s *Server) setUpload(ctx context.Context, fn *v1alpha1.Function, sha256 string, size int64) error {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"source": map[string]any{"upload": map[string]any{"sha256": sha256, "sizeBytes": size}}},
	}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Function"))
	u.SetNamespace(fn.Namespace)
	u.SetName(fn.Name)
	// An apply creates what does not exist. With the UID, it fails when the Function was deleted in the meantime.
	u.SetUID(fn.UID)
	err := s.cfg.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner(v1alpha1.FieldOwnerGateway), client.ForceOwnership)
	if err == nil {
		return nil
	}
	now, targetErr := s.uploadTarget(ctx, fn.Namespace, fn.Name)
	switch {
	case targetErr != nil:
		return targetErr // deleted or changed while the upload went on
	case now.UID != fn.UID:
		return fail(http.StatusConflict, "function %s/%s was replaced by another one; upload again", fn.Namespace, fn.Name)
	}
	return explainCluster(fmt.Errorf("patching function %s/%s: %w", fn.Namespace, fn.Name, err))
}

// explainCluster turns an error of the Kubernetes API into an answer.
func explainCluster(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return platformDown("the cluster does not answer now; try again", err)
	}
	message := status.Status().Message
	switch {
	case apierrors.IsInvalid(err), strings.Contains(message, "denied the request"):
		return fail(http.StatusUnprocessableEntity, "the cluster refuses the change: %s", message)
	case apierrors.IsConflict(err):
		return fail(http.StatusConflict, "the function was changed at the same time; upload again")
	case apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err),
		apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err):
		return platformDown("the cluster does not answer now; try again", err)
	}
	return err
}
