// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/validator"
)

// ReviewAction is what a verdict means for a Function.
type ReviewAction int

const (
	// ReviewPass lets the code go on.
	ReviewPass ReviewAction = iota
	// ReviewRefuse stops the code until it changes.
	ReviewRefuse
	// ReviewWait looks for the verdict again soon.
	ReviewWait
	// ReviewHold looks for it again after growing pauses.
	ReviewHold
)

// ReviewStep says how a Function goes on after a review.
type ReviewStep struct {
	Action ReviewAction
	// Reason and Message are those of the condition CodeReviewed.
	Reason, Message string
	// Again is when the review is asked for again by itself. 0 means not, or for ReviewHold a growing pause.
	Again time.Duration
}

// ReviewState is what is known of a Function besides the verdict.
type ReviewState struct {
	// Runs says whether pods of this code were started before. A review that goes on does not hold them up.
	Runs bool
	// Before is the condition CodeReviewed from before, if there is one for the current spec.
	Before *metav1.Condition
}

const (
	// ReviewSoon is when a review that goes on is looked at again.
	ReviewSoon = time.Second
	// ReviewLater is when code that goes on without a verdict is submitted again.
	ReviewLater = 5 * time.Minute
)

// The messages of code without a verdict. They name no cause, so that an outage with changing symptoms changes no status.
const (
	unreviewed = "the code was not reviewed, because the reviewer gave no usable answer; it is asked again later"
	heldBack   = "the code waits for its review, because the reviewer gives no usable answer; it is asked again"
)

// NextReviewStep decides from a verdict about the code with the digest.
func NextReviewStep(v validator.Verdict, digest string, now ReviewState) ReviewStep {
	switch v.Outcome {
	case validator.Off:
		return ReviewStep{Reason: v1alpha1.ReasonReviewOff, Message: "no review is configured"}
	case validator.Accepted:
		return ReviewStep{Reason: v1alpha1.ReasonReviewPassed, Message: "the review found nothing hostile"}
	case validator.Skipped:
		return ReviewStep{Reason: v1alpha1.ReasonReviewSkipped, Message: "the code was not reviewed: " + v.Message}
	case validator.SoftFailed:
		return ReviewStep{Reason: v1alpha1.ReasonReviewUnavailable, Message: unreviewed, Again: ReviewLater}
	case validator.Rejected:
		return ReviewStep{
			Action: ReviewRefuse, Reason: v1alpha1.ReasonCodeRejected,
			Message: fmt.Sprintf("the review refused the code %s: %s", digest, v.Message),
		}
	case validator.Unavailable:
		return ReviewStep{Action: ReviewHold, Reason: v1alpha1.ReasonReviewUnavailable, Message: heldBack}
	}
	return pendingStep(now)
}

// pendingStep decides while a review goes on. What the Function says about its code stands in the meantime, if it says
// something: a review that is made again, for instance because the manager was started anew, changes nothing before it ends.
func pendingStep(now ReviewState) ReviewStep {
	passed := now.Before != nil && now.Before.Status == metav1.ConditionTrue
	heldBefore := now.Before != nil && now.Before.Reason == v1alpha1.ReasonReviewUnavailable
	switch {
	case now.Runs && passed:
		return ReviewStep{Reason: now.Before.Reason, Message: now.Before.Message, Again: ReviewSoon}
	case now.Runs:
		return ReviewStep{Reason: v1alpha1.ReasonReviewUnavailable, Message: unreviewed, Again: ReviewSoon}
	case heldBefore && !passed:
		return ReviewStep{Action: ReviewHold, Reason: v1alpha1.ReasonReviewUnavailable, Message: heldBack}
	}
	return ReviewStep{Action: ReviewWait, Reason: v1alpha1.ReasonReviewing, Message: "the code is being reviewed", Again: ReviewSoon}
}

// ImageReview says that a ready image is not reviewed. on says whether code is reviewed at all.
func ImageReview(on bool) ReviewStep {
	if !on {
		return NextReviewStep(validator.Verdict{Outcome: validator.Off}, "", ReviewState{})
	}
	return ReviewStep{
		Reason: v1alpha1.ReasonReviewSkipped, Message: "spec.source.image is a ready image, whose code cannot be reviewed",
	}
}
