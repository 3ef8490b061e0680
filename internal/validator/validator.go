// SPDX-License-Identifier: Apache-2.0

// Package validator reviews the code of functions before it is built. A language model judges whether the code is
// hostile; a Gate around it keeps verdicts, bounds what is asked at once and applies the operator's policy.
//
// The code is data throughout: nothing in it may instruct the model, end the part of the message that holds it, or pass
// for the model's answer. A review is one line of defence among several, and it is told to users as no more than that.
package validator

import (
	"context"
	"fmt"
)

// CodeValidator judges the code of a function. It is safe for concurrent use.
type CodeValidator interface {
	// Validate says whether the code may run. files maps names to contents, as Select gives them; runtime is a name of
	// the catalogue. When safe is false, reason says why in a sentence for the user. An error means that there is no
	// verdict; a *Failure tells its cause.
	Validate(ctx context.Context, files map[string]string, runtime string) (safe bool, reason string, err error)
}

// NoopValidator finds all code safe. It stands in when no review is configured.
type NoopValidator struct{}

var _ CodeValidator = NoopValidator{}

// Validate finds the code safe.
func (NoopValidator) Validate(context.Context, map[string]string, string) (bool, string, error) {
	return true, "", nil
}

// Cause is why a review gave no verdict, one word for metrics and logs.
type Cause string

// Causes.
const (
	// CauseTimeout means that the model did not answer in time.
	CauseTimeout Cause = "timeout"
	// CauseUnreachable means that there was no connection, or that it broke.
	CauseUnreachable Cause = "unreachable"
	// CauseStatus means that the model's server answered with an HTTP error, such as 500 or 401.
	CauseStatus Cause = "status"
	// CauseAnswer means that the answer was not what was asked for.
	CauseAnswer Cause = "answer"
	// CauseRefusal means that the model declined to answer.
	CauseRefusal Cause = "refusal"
	// CauseBusy means that it was never this review's turn.
	CauseBusy Cause = "busy"
	// CauseResting means that the model failed several times in a row and is left alone for a moment.
	CauseResting Cause = "resting"
)

// sentences tell users why there is no verdict. They name no address and hold no text of the server.
var sentences = map[Cause]string{
	CauseTimeout:     "the reviewer did not answer in time",
	CauseUnreachable: "the reviewer cannot be reached",
	CauseStatus:      "the reviewer answered with an error",
	CauseAnswer:      "the reviewer's answer was not usable",
	CauseRefusal:     "the reviewer declined to answer",
	CauseBusy:        "too much code waits for the reviewer",
	CauseResting:     "the reviewer does not answer at present",
}

// Failure is a review that gave no verdict.
type Failure struct {
	Cause Cause
	// Err has the details for the log. It never holds the API key or the code.
	Err error
}

func failure(cause Cause, format string, args ...any) *Failure {
	return &Failure{Cause: cause, Err: fmt.Errorf(format, args...)}
}

// Error gives the cause and the details.
func (f *Failure) Error() string { return fmt.Sprintf("no verdict (%s): %v", f.Cause, f.Err) }

// Unwrap gives the details.
func (f *Failure) Unwrap() error { return f.Err }
