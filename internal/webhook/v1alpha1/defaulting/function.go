// SPDX-License-Identifier: Apache-2.0

// Package defaulting fills in what the schema cannot: defaults that depend on the runtime, and one order for lists whose
// order means nothing. The functions are pure. The reconcilers work with the same values when the webhook was not asked.
package defaulting

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/webhook/v1alpha1/validation"
)

// SortedEnvWarning tells whoever sent spec.env unsorted what happened and how to end it.
const SortedEnvWarning = "spec.env was sorted by name. Tools that compare what they sent with what is stored would see a " +
	"change: write the list sorted by name (docs/admission.md)"

// DefaultFunction completes a Function in place. The warnings are for whoever sent it.
func DefaultFunction(fn *v1alpha1.Function, catalogue validation.Catalogue) (warnings []string) {
	if rt, ok := catalogue.Lookup(fn.Spec.Runtime); ok && fn.Spec.Entrypoint == "" {
		fn.Spec.Entrypoint = rt.DefaultEntrypoint
	}
	byName := func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) }
	if slices.IsSortedFunc(fn.Spec.Env, byName) {
		return nil
	}
	slices.SortStableFunc(fn.Spec.Env, byName)
	return []string{SortedEnvWarning}
}
