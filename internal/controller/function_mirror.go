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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
)

// ensureMirrors copies what the Function refers to, and no more of it than that, into the deploy namespace. Secrets are
// read past the cache, which holds none.
func (r *FunctionReconciler) ensureMirrors(ctx context.Context, s *functionScope) error {
	s.mirrors = map[resources.Source]string{}
	for _, reference := range plan.References(s.fn) {
		data, err := r.readSource(ctx, s.fn.Namespace, reference.Source)
		if err != nil {
			return err
		}
		picked, err := reference.Pick(s.fn.Namespace, data)
		if err != nil {
			return stalled(v1alpha1.ConditionAvailable, v1alpha1.ReasonConfigMissing, "%s", err.Error())
		}
		if picked == nil {
			continue
		}
		mirror := resources.Mirror(s.fn, reference.Source, picked)
		if err := apply(ctx, r.Client, mirror); err != nil {
			return err
		}
		s.mirrors[reference.Source] = mirror.GetName()
	}
	return nil
}

// readSource returns the data of a Secret or ConfigMap, or nil when it does not exist.
func (r *FunctionReconciler) readSource(
	ctx context.Context, namespace string, source resources.Source,
) (map[string][]byte, error) {
	return readSource(ctx, r.APIReader, namespace, source)
}

func readSource(
	ctx context.Context, reader client.Reader, namespace string, source resources.Source,
) (map[string][]byte, error) {
	key := client.ObjectKey{Namespace: namespace, Name: source.Name}
	secret, configMap := &corev1.Secret{}, &corev1.ConfigMap{}
	var obj client.Object = configMap
	if source.Kind == resources.SourceSecret {
		obj = secret
	}
	err := reader.Get(ctx, key, obj)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", source.Kind, key, err)
	case source.Kind == resources.SourceSecret:
		return plan.SecretData(secret), nil
	default:
		return plan.ConfigMapData(configMap), nil
	}
}

// removeOldMirrors deletes the copies that no running version needs any more. While a rollout goes on, or hangs, the old
// version still needs its own.
func (r *FunctionReconciler) removeOldMirrors(ctx context.Context, s *functionScope) error {
	if !plan.RolledOut(s.deployment, s.revision) {
		return nil
	}
	wanted := map[string]bool{}
	for source, name := range s.mirrors {
		wanted[referenceKey(source.Kind, name)] = true
	}
	owned := resources.OwnerLabels(s.fn, resources.ComponentMirror)
	for kind, list := range map[resources.SourceKind]client.ObjectList{
		resources.SourceSecret: metadataList("SecretList"), resources.SourceConfigMap: metadataList("ConfigMapList"),
	} {
		if err := r.List(ctx, list, client.InNamespace(s.deployNamespace()), client.MatchingLabels(owned)); err != nil {
			return fmt.Errorf("listing copies: %w", err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			obj, ok := item.(client.Object)
			if !ok || wanted[referenceKey(kind, obj.GetName())] {
				return nil
			}
			return client.IgnoreNotFound(r.Delete(ctx, obj))
		})
		if err != nil {
			return fmt.Errorf("deleting a copy that is no longer needed: %w", err)
		}
	}
	return nil
}

// functionsReferringTo leads from a Secret or ConfigMap to the Functions of its namespace that refer to it.
func (r *FunctionReconciler) functionsReferringTo(kind resources.SourceKind) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		functions := &v1alpha1.FunctionList{}
		if err := r.List(ctx, functions, client.InNamespace(obj.GetNamespace()),
			client.MatchingFields{indexFunctionReference: referenceKey(kind, obj.GetName())}); err != nil {
			return nil
		}
		// A copy leads back to its own Function, so that it comes back when it is deleted.
		requests := functionForObject(ctx, obj)
		for i := range functions.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&functions.Items[i])})
		}
		return requests
	}
}

// metadataList is a list that the cache serves from metadata alone.
func metadataList(kind string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return list
}
