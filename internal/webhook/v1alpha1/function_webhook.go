// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/webhook/v1alpha1/defaulting"
	"github.com/naeel/sless/internal/webhook/v1alpha1/validation"
)

// warningsKey finds the list into which a Defaulter, which can return no warnings, puts them.
type warningsKey struct{}

// functionDefaulter completes Functions.
type functionDefaulter struct {
	catalogue validation.Catalogue
}

var _ admission.Defaulter[*v1alpha1.Function] = (*functionDefaulter)(nil)

// functionDefaulting returns the webhook around the Defaulter, which adds its warnings to the answer.
func functionDefaulting(scheme *runtime.Scheme, catalogue validation.Catalogue) *admission.Webhook {
	hook := admission.WithDefaulter(scheme, &functionDefaulter{catalogue: catalogue})
	inner := hook.Handler
	hook.Handler = admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		var warnings []string
		resp := inner.Handle(context.WithValue(ctx, warningsKey{}, &warnings), req)
		if !resp.Allowed && resp.Result != nil && resp.Result.Code == http.StatusBadRequest {
			// What cannot be read breaks the schema, which is asked next and says it in the user's words.
			return admission.Allowed("")
		}
		return resp.WithWarnings(warnings...)
	})
	return hook
}

// Default completes a Function that is created or changed.
func (d *functionDefaulter) Default(ctx context.Context, fn *v1alpha1.Function) error {
	if !fn.DeletionTimestamp.IsZero() {
		return nil
	}
	warnings := defaulting.DefaultFunction(fn, d.catalogue)
	if into, ok := ctx.Value(warningsKey{}).(*[]string); ok {
		*into = append(*into, warnings...)
	}
	return nil
}

// FunctionValidator judges Functions, and has their inline code reviewed.
type FunctionValidator struct {
	Catalogue validation.Catalogue
	Clock     clock.PassiveClock
	// Reviewer is asked last, about inline code that is new. It may be nil.
	Reviewer Reviewer
	// refusals tells of code that the Reviewer refused. It may be nil.
	refusals *refusalTeller
}

var _ admission.Validator[*v1alpha1.Function] = (*FunctionValidator)(nil)

// ValidateCreate judges a new Function.
func (v *FunctionValidator) ValidateCreate(ctx context.Context, fn *v1alpha1.Function) (admission.Warnings, error) {
	return v.judge(ctx, nil, fn, validation.ValidateFunction(fn, v.Catalogue), nil)
}

// ValidateUpdate judges a change of the spec. Everything else passes.
func (v *FunctionValidator) ValidateUpdate(ctx context.Context, old, changed *v1alpha1.Function) (admission.Warnings, error) {
	if !changed.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(old.Spec, changed.Spec) {
		return nil, nil
	}
	introduced, kept := validation.ValidateFunctionUpdate(old, changed, v.Catalogue)
	return v.judge(ctx, old, changed, introduced, kept)
}

// ValidateDelete lets everything go.
func (v *FunctionValidator) ValidateDelete(context.Context, *v1alpha1.Function) (admission.Warnings, error) {
	return nil, nil
}

func (v *FunctionValidator) judge(
	ctx context.Context, old, fn *v1alpha1.Function, problems, kept []validation.Problem,
) (admission.Warnings, error) {
	if err := refuse("Function", fn.Name, problems); err != nil {
		return nil, err
	}
	warnings := append(warnKept(kept), validation.FunctionWarnings(fn, v.Catalogue, v.Clock.Now())...)
	if v.Reviewer == nil || !codeIsNew(old, fn) {
		return warnings, nil
	}
	review, err := v.review(ctx, fn, old != nil)
	if err != nil {
		return warnings, err
	}
	return append(warnings, review.Warnings...), nil
}

// review has the code reviewed. isStored says whether the Function is there already.
func (v *FunctionValidator) review(ctx context.Context, fn *v1alpha1.Function, isStored bool) (Review, error) {
	dryRun := false
	if req, err := admission.RequestFromContext(ctx); err == nil {
		dryRun = ptr.Deref(req.DryRun, false)
	}
	ctx, cancel := context.WithTimeout(ctx, ReviewTimeout)
	defer cancel()
	review, err := v.Reviewer.Review(ctx, fn, dryRun)
	if err != nil {
		return review, apierrors.NewInternalError(fmt.Errorf("reviewing the code: %w", err))
	}
	if review.Denied != "" {
		if review.Digest != "" && !dryRun {
			v.refusals.tell(fn, isStored, review)
		}
		resource := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "functions"}
		return review, apierrors.NewForbidden(resource, fn.Name, fmt.Errorf("code validation failed: %s", review.Denied))
	}
	return review, nil
}

// codeIsNew tells whether a Function brings inline code that was not reviewed with it before. The runtime decides what the
// code means.
func codeIsNew(old, fn *v1alpha1.Function) bool {
	if fn.Spec.Source.Inline == nil {
		return false
	}
	return old == nil || old.Spec.Runtime != fn.Spec.Runtime ||
		!equality.Semantic.DeepEqual(old.Spec.Source.Inline, fn.Spec.Source.Inline)
}
