// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/webhook/v1alpha1/validation"
)

// validate judges the spec by the rules of the admission webhook, for objects that came in without it.
func (r *FunctionReconciler) validate(_ context.Context, s *functionScope) error {
	if problems := validation.ValidateFunction(s.fn, r.Catalogue); len(problems) > 0 {
		return stalled(v1alpha1.ConditionSourceReady, problems[0].Reason, "%s", problems[0].Err.Error())
	}
	// A ready image may name no runtime; the zero one has no dependencies and no defaults.
	s.runtime, _ = r.Catalogue.Lookup(s.fn.Spec.Runtime)
	s.entrypoint = validation.EntrypointOf(s.fn, s.runtime)
	return nil
}
