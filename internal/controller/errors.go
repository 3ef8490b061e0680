// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
)

// kind says who can mend a fault, and so what happens next.
type kind int

const (
	// kindStalled waits for the user: nothing is retried until an object changes.
	kindStalled kind = iota
	// kindWaiting waits for other work that will end by itself. It is no fault.
	kindWaiting
	// kindPlatform waits for the platform: it is retried with a growing delay.
	kindPlatform
)

// phaseError ends a pass and says which condition tells of it, with which reason.
type phaseError struct {
	kind      kind
	condition string
	reason    string
	message   string
	// after is when to try again, for a fault of the platform that has its own pace. 0 means a growing delay.
	after time.Duration
	err   error
}

func (e *phaseError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("%s: %s: %v", e.reason, e.message, e.err)
	}
	return fmt.Sprintf("%s: %s", e.reason, e.message)
}

func (e *phaseError) Unwrap() error { return e.err }

// stalled is a fault that only the user can mend.
func stalled(condition, reason, format string, args ...any) error {
	return &phaseError{kind: kindStalled, condition: condition, reason: reason, message: fmt.Sprintf(format, args...)}
}

// waiting is work that goes on elsewhere. A watch tells when it ends.
func waiting(condition, reason, format string, args ...any) error {
	return &phaseError{kind: kindWaiting, condition: condition, reason: reason, message: fmt.Sprintf(format, args...)}
}

// platform is a fault of the platform. The message is for the user, err for the log.
func platform(condition, reason, message string, err error) error {
	return &phaseError{kind: kindPlatform, condition: condition, reason: reason, message: message, err: err}
}

// asPhaseError returns err as a phaseError. Whatever else went wrong counts as a fault of the platform.
func asPhaseError(err error) *phaseError {
	if err == nil {
		return nil
	}
	if pe, ok := errors.AsType[*phaseError](err); ok {
		return pe
	}
	return &phaseError{kind: kindPlatform, reason: v1alpha1.ReasonInternalError, message: err.Error(), err: err}
}
