// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func applyUnstructured(ctx context.Context, c client.Client, fields map[string]any) error {
	obj := &unstructured.Unstructured{Object: fields}
	configuration := client.ApplyConfigurationFromUnstructured(obj)
	if err := c.Apply(ctx, configuration, fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}
