// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"fmt"
)

// Outcome is what a review came to.
type Outcome string

// Outcomes.
const (
	// Off means that no review is configured. The code passes.
	Off Outcome = "off"
	// Accepted means that the reviewer found nothing hostile. The code passes.
	Accepted Outcome = "accepted"
	// Rejected means that the code must not run. Only other code changes that.
	Rejected Outcome = "rejected"
	// Skipped means that the code is not reviewed, by its size or by the operator's choice. The code passes.
	Skipped Outcome = "skipped"
	// SoftFailed means that there is no verdict, and that the policy lets the code pass.
	SoftFailed Outcome = "soft-failed"
	// Unavailable means that there is no verdict, and that the policy holds the code back until there is one.
	Unavailable Outcome = "unavailable"
	// Pending means that the review goes on. Only a Submission that is Recurring gets it.
	Pending Outcome = "pending"
)

// Verdict is the answer of a Gate.
type Verdict struct {
	Outcome Outcome
	// Message is a sentence for the user, without a capital and a full stop: why the code was rejected, skipped or not
	// reviewed. It is one line of at most MaxReasonBytes, and holds no address and no secret.
	Message string
}

// Passes says whether the code may go on.
func (v Verdict) Passes() bool {
	switch v.Outcome {
	case Off, Accepted, Skipped, SoftFailed:
		return true
	}
	return false
}

// Warning returns what the user should be told of code that passes, or nothing.
func (v Verdict) Warning() string {
	switch v.Outcome {
	case Skipped, SoftFailed:
		return "the code was not reviewed: " + v.Message
	}
	return ""
}

// Submission is code that asks to pass.
type Submission struct {
	// Namespace and Name are those of the Function.
	Namespace, Name string
	// Runtime is the name of its runtime.
	Runtime string
	// Digest is that of the code's canonical archive, with or without "sha256:". InlineDigest gives that of inline code.
	Digest string
	// Files returns the files that are reviewed, from ReadArchive or Select, or a *TooLargeError. It is called only when no
	// verdict is kept, perhaps after the caller of Review has gone.
	Files func(ctx context.Context) (map[string]string, error)
	// KeptOnly asks the model nothing: without a kept verdict the code counts as skipped. It is for dry runs.
	KeptOnly bool
	// Recurring is set by a caller that asks about the same code again and again, such as a controller. A refusal
	// gets one audit line and not one for each time. It gets Pending when the review that it began has not ended with the
	// context, and at once when somebody else's review of the same code goes on, or when it is not its turn.
	Recurring bool
}

func (s Submission) object() string { return fmt.Sprintf("%s/%s", s.Namespace, s.Name) }
