// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// indexTriggerFunction finds Triggers by the Function that they refer to.
const indexTriggerFunction = "spec.functionRef.name"

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
	return nil
}
