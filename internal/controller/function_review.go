// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/validator"
)

// reviewWait is how long a pass waits for a verdict. A verdict that was kept comes at once, and many models answer in
// that time; else the Function is looked at again, so that a slow model holds up few workers and not for long.
const reviewWait = 2 * time.Second

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

// newRefusal returns what is to be told of code that was refused between two states of a Function, or nothing. What else is
// wrong with the Function does not matter: Ready may speak of something else, such as that all its Triggers are off.
func newRefusal(before, after *v1alpha1.Function) string {
	is := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionCodeReviewed)
	if is == nil || is.Reason != v1alpha1.ReasonCodeRejected {
		return ""
	}
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionCodeReviewed)
	// The message has the digest.
	isNew := was == nil || was.Reason != is.Reason || was.Message != is.Message
	isSaidAnew := readyOf(after).Reason == is.Reason && readyOf(before).Reason != is.Reason
	if !isNew && !isSaidAnew {
		return ""
	}
	return is.Message
}
