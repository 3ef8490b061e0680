// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/validator"
)

const (
	// reviewWait is how long a pass waits for a verdict. A verdict that was kept comes at once, and many models answer in
	// that time; else the Function is looked at again, so that a slow model holds up few workers and not for long.
	reviewWait = 2 * time.Second
	// actionDigits of a digest are in the action of an event.
	actionDigits = 12
)

// Reviewer judges code, see validator.Gate.
type Reviewer interface {
	Enabled() bool
	Review(ctx context.Context, s validator.Submission) (validator.Verdict, error)
}

// reviewCode lets the gate judge the code as it is stored, whatever way it came in. What the gateway or the admission
// webhook have had reviewed has its verdict already.
func (r *FunctionReconciler) reviewCode(ctx context.Context, s *functionScope) error {
	on := r.Review != nil && r.Review.Enabled()
	if !on || s.code == nil {
		return s.takeReviewStep(plan.ImageReview(on))
	}
	ctx, cancel := context.WithTimeout(ctx, reviewWait)
	defer cancel()
	verdict, err := r.Review.Review(ctx, validator.Submission{
		Namespace: s.fn.Namespace, Name: s.fn.Name, Runtime: s.fn.Spec.Runtime, Digest: s.code.digest, Recurring: true,
		Files: reviewedFiles(s.code),
	})
	if err != nil {
		delete(s.done, v1alpha1.ConditionSourceReady)
		return storedCodeFault(err)
	}
	return s.takeReviewStep(plan.NextReviewStep(verdict, s.code.digest, reviewState(s)))
}

// reviewState gathers what the decision needs.
func reviewState(s *functionScope) plan.ReviewState {
	before := meta.FindStatusCondition(s.fn.Status.Conditions, v1alpha1.ConditionCodeReviewed)
	if before != nil && before.ObservedGeneration != s.fn.Generation {
		before = nil
	}
	return plan.ReviewState{Runs: runsCode(s), Before: before}
}

// reviewedFiles reads the files of a review from the archive. It does not hold on to the pass.
func reviewedFiles(code *codeArchive) func(context.Context) (map[string]string, error) {
	return func(ctx context.Context) (files map[string]string, err error) {
		err = read(ctx, code.open, func(content io.Reader) (err error) {
			files, err = validator.ReadArchive(content)
			return err
		})
		return files, err
	}
}

// runsCode says whether the Deployment asks for pods of the code of this pass.
func runsCode(s *functionScope) bool {
	return s.deployment != nil && s.code.digest != "" &&
		s.deployment.Labels[v1alpha1.LabelSourceDigest] == resources.ShortDigest(s.code.digest)
}

func (s *functionScope) takeReviewStep(step plan.ReviewStep) error {
	switch step.Action {
	case plan.ReviewRefuse:
		return stalled(v1alpha1.ConditionCodeReviewed, step.Reason, "%s", step.Message)
	case plan.ReviewHold:
		return platform(v1alpha1.ConditionCodeReviewed, step.Reason, step.Message, nil)
	case plan.ReviewWait:
		return &phaseError{
			kind: kindWaiting, condition: v1alpha1.ConditionCodeReviewed, reason: step.Reason, message: step.Message,
			after: step.Again,
		}
	}
	s.lookAgainAfter(step.Again)
	s.succeed(v1alpha1.ConditionCodeReviewed, step.Reason, step.Message)
	return nil
}

// reviewAction is the action of an event about refused code. Events of one object with the same reason and action are
// counted as one, which would hide all but the first digest.
func reviewAction(s *functionScope) string {
	digits := strings.TrimPrefix(s.codeDigest(), "sha256:")
	return "Review:" + digits[:min(len(digits), actionDigits)]
}
