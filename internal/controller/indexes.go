// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
)

// indexTriggerFunction finds Triggers by the Function that they refer to.
const indexTriggerFunction = "spec.functionRef.name"

// indexJobFunction finds FunctionJobs by the Function that they refer to.
const indexJobFunction = "spec.functionRef.name"

// indexFunctionReference finds Functions by the Secrets and ConfigMaps that they refer to, as "Kind/name".
const indexFunctionReference = "sless.io/reference"

func referenceKey(kind resources.SourceKind, name string) string { return string(kind) + "/" + name }

// SetupIndexes adds the indexes that the controllers look things up by.
func SetupIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &v1alpha1.Trigger{}, indexTriggerFunction, func(obj client.Object) []string {
		trigger, ok := obj.(*v1alpha1.Trigger)
		if !ok {
			return nil
		}
		return []string{trigger.Spec.FunctionRef.Name}
	})
	if err != nil {
		return fmt.Errorf("indexing Triggers by Function: %w", err)
	}
	err = indexer.IndexField(ctx, &v1alpha1.FunctionJob{}, indexJobFunction, func(obj client.Object) []string {
		job, ok := obj.(*v1alpha1.FunctionJob)
		if !ok {
			return nil
		}
		return []string{job.Spec.FunctionRef.Name}
	})
	if err != nil {
		return fmt.Errorf("indexing FunctionJobs by Function: %w", err)
	}
	err = indexer.IndexField(ctx, &v1alpha1.Function{}, indexFunctionReference, func(obj client.Object) []string {
		fn, ok := obj.(*v1alpha1.Function)
		if !ok {
			return nil
		}
		var keys []string
		for _, reference := range plan.References(fn) {
			keys = append(keys, referenceKey(reference.Kind, reference.Name))
		}
		if name := fn.Spec.Build.SecretName; name != "" {
			keys = append(keys, referenceKey(resources.SourceSecret, name))
		}
		if source := fn.Spec.Source.Git; source != nil && source.SecretName != "" {
			keys = append(keys, referenceKey(resources.SourceSecret, source.SecretName))
		}
		if source := fn.Spec.Source.ConfigMap; source != nil {
			keys = append(keys, referenceKey(resources.SourceConfigMap, source.Name))
		}
		return keys
	})
	if err != nil {
		return fmt.Errorf("indexing Functions by what they refer to: %w", err)
	}
	return nil
}
