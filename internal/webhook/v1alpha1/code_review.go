// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/validator"
	"github.com/naeel/sless/internal/webhook/v1alpha1/validation"
)

// gateReviewer has inline code judged by the gate that the controller asks too, which finds the verdict again.
type gateReviewer struct {
	gate      *validator.Gate
	catalogue validation.Catalogue
}

var _ Reviewer = (*gateReviewer)(nil)

// NewReviewer returns a Reviewer around a gate, or nil when code is not reviewed.
func NewReviewer(gate *validator.Gate, catalogue validation.Catalogue) Reviewer {
	if !gate.Enabled() {
		return nil
	}
	return &gateReviewer{gate: gate, catalogue: catalogue}
}

// Review judges inline code. A dry run asks the model nothing, and only finds what is known already.
func (r *gateReviewer) Review(ctx context.Context, fn *v1alpha1.Function, dryRun bool) (Review, error) {
	rt, _ := r.catalogue.Lookup(fn.Spec.Runtime) // The rules have refused a runtime that is unknown.
	submission, err := validator.InlineSubmission(fn, rt)
	if err != nil {
		return Review{Denied: err.Error()}, nil
	}
	submission.KeptOnly = dryRun
	verdict, err := r.gate.Review(ctx, submission)
	switch {
	case err != nil:
		return Review{}, err
	case verdict.Outcome == validator.Rejected:
		return Review{Denied: verdict.Message, Digest: submission.Digest}, nil
	case !verdict.Passes():
		return Review{}, fmt.Errorf("the code cannot be reviewed now: %s; try again", verdict.Message)
	case verdict.Warning() != "" && !dryRun:
		return Review{Warnings: []string{verdict.Warning()}}, nil
	}
	return Review{}, nil
}
