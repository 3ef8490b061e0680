// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/webhook/v1alpha1/validation"
)

// FunctionJobValidator judges FunctionJobs.
type FunctionJobValidator struct {
	functions *functionFinder
}

var _ admission.Validator[*v1alpha1.FunctionJob] = (*FunctionJobValidator)(nil)

// ValidateCreate judges a new FunctionJob.
func (v *FunctionJobValidator) ValidateCreate(ctx context.Context, obj *v1alpha1.FunctionJob) (admission.Warnings, error) {
	if err := refuse("FunctionJob", obj.Name, validation.ValidateFunctionJob(obj)); err != nil {
		return nil, err
	}
	return v.functions.warnMissing(ctx, obj.Namespace, obj.Spec.FunctionRef.Name), nil
}

// ValidateUpdate judges a change of the spec. Everything else passes. What may not change is told by the schema.
func (v *FunctionJobValidator) ValidateUpdate(ctx context.Context, old, changed *v1alpha1.FunctionJob) (admission.Warnings, error) {
	if !changed.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(old.Spec, changed.Spec) {
		return nil, nil
	}
	introduced, kept := validation.Introduced(validation.ValidateFunctionJob(old), validation.ValidateFunctionJob(changed))
	if err := refuse("FunctionJob", changed.Name, introduced); err != nil {
		return nil, err
	}
	warnings := warnKept(kept)
	return append(warnings, v.functions.warnMissing(ctx, changed.Namespace, changed.Spec.FunctionRef.Name)...), nil
}

// ValidateDelete lets everything go.
func (v *FunctionJobValidator) ValidateDelete(context.Context, *v1alpha1.FunctionJob) (admission.Warnings, error) {
	return nil, nil
}
