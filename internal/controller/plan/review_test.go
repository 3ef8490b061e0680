// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/validator"
)

func TestNextReviewStep(t *testing.T) {
	t.Parallel()
	before := func(status metav1.ConditionStatus, reason string) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.ConditionCodeReviewed, Status: status, Reason: reason, Message: "as before"}
	}
	passed := before(metav1.ConditionTrue, v1alpha1.ReasonReviewPassed)
	unavailable := before(metav1.ConditionFalse, v1alpha1.ReasonReviewUnavailable)
	tests := map[string]struct {
		verdict validator.Verdict
		now     ReviewState
		want    ReviewStep
	}{
		"off":      {verdict: validator.Verdict{Outcome: validator.Off}, want: ReviewStep{Reason: "ReviewOff", Message: "no review is configured"}},
		"accepted": {verdict: validator.Verdict{Outcome: validator.Accepted}, want: ReviewStep{Reason: "ReviewPassed", Message: "the review found nothing hostile"}},
		"skipped": {
			verdict: validator.Verdict{Outcome: validator.Skipped, Message: "it is large"},
			want:    ReviewStep{Reason: "ReviewSkipped", Message: "the code was not reviewed: it is large"},
		},
		"rejected": {
			verdict: validator.Verdict{Outcome: validator.Rejected, Message: "mines coins"},
			want:    ReviewStep{Action: ReviewRefuse, Reason: "CodeRejected", Message: "the review refused the code sha256:c0de: mines coins"},
		},
		"rejected while it runs": {
			verdict: validator.Verdict{Outcome: validator.Rejected, Message: "mines coins"}, now: ReviewState{Runs: true, Before: passed},
			want: ReviewStep{Action: ReviewRefuse, Reason: "CodeRejected", Message: "the review refused the code sha256:c0de: mines coins"},
		},
		"no verdict, Ignore": {
			verdict: validator.Verdict{Outcome: validator.SoftFailed, Message: "timeout"},
			want:    ReviewStep{Reason: "ReviewUnavailable", Message: unreviewed, Again: 5 * time.Minute},
		},
		"no verdict, Fail": {
			verdict: validator.Verdict{Outcome: validator.Unavailable, Message: "timeout"},
			want:    ReviewStep{Action: ReviewHold, Reason: "ReviewUnavailable", Message: heldBack},
		},
		"pending": {
			verdict: validator.Verdict{Outcome: validator.Pending},
			want:    ReviewStep{Action: ReviewWait, Reason: "Reviewing", Message: "the code is being reviewed", Again: time.Second},
		},
		"pending, other code passed before": {
			verdict: validator.Verdict{Outcome: validator.Pending}, now: ReviewState{Before: passed},
			want: ReviewStep{Action: ReviewWait, Reason: "Reviewing", Message: "the code is being reviewed", Again: time.Second},
		},
		"pending, it runs and had passed": {
			verdict: validator.Verdict{Outcome: validator.Pending}, now: ReviewState{Runs: true, Before: passed},
			want: ReviewStep{Reason: "ReviewPassed", Message: "as before", Again: time.Second},
		},
		"pending, it runs and nothing is known": {
			verdict: validator.Verdict{Outcome: validator.Pending}, now: ReviewState{Runs: true},
			want: ReviewStep{Reason: "ReviewUnavailable", Message: unreviewed, Again: time.Second},
		},
		"pending, it runs and was refused": {
			verdict: validator.Verdict{Outcome: validator.Pending}, now: ReviewState{Runs: true, Before: before(metav1.ConditionFalse, "CodeRejected")},
			want: ReviewStep{Reason: "ReviewUnavailable", Message: unreviewed, Again: time.Second},
		},
		"pending again after no verdict, Fail": {
			verdict: validator.Verdict{Outcome: validator.Pending}, now: ReviewState{Before: unavailable},
			want: ReviewStep{Action: ReviewHold, Reason: "ReviewUnavailable", Message: heldBack},
		},
		"an outcome of another version": {
			verdict: validator.Verdict{Outcome: "new"},
			want:    ReviewStep{Action: ReviewWait, Reason: "Reviewing", Message: "the code is being reviewed", Again: time.Second},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, NextReviewStep(tc.verdict, "sha256:c0de", tc.now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestImageReview(t *testing.T) {
	t.Parallel()
	if got := ImageReview(false); got.Reason != v1alpha1.ReasonReviewOff || got.Action != ReviewPass {
		t.Errorf("off: %+v", got)
	}
	if got := ImageReview(true); got.Reason != v1alpha1.ReasonReviewSkipped || got.Action != ReviewPass {
		t.Errorf("on: %+v", got)
	}
}
