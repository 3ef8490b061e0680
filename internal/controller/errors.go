// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/naeel/sless/api/v1alpha1"
)

// faultKind says who can mend a fault, and so what happens next.
type faultKind int

const (
	// kindStalled waits for the user: nothing is retried until an object changes.
	kindStalled faultKind = iota
	// kindWaiting waits for other work that will end by itself. It is no fault.
	kindWaiting
	// kindPlatform waits for the platform: it is retried with a growing delay.
	kindPlatform
)

// recheck is when to look again where no watch tells of an end, or where it might be missed.
const recheck = 30 * time.Second

// errStale ends a pass over an object that has changed meanwhile. Another pass follows; nothing is shown of it.
var errStale = errors.New("the object has changed meanwhile")

// phaseError ends a pass and says which condition tells of it, with which reason.
type phaseError struct {
	kind      faultKind
	condition string
	reason    string
	message   string
	// after is when to look again. 0 leaves that to the kind of the fault.
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

// unwatched is a fault that only the user can mend, by changing what no watch tells of: an object that is not ours, or what
// is outside the cluster.
func unwatched(condition, reason, format string, args ...any) error {
	return &phaseError{
		kind: kindStalled, condition: condition, reason: reason, message: fmt.Sprintf(format, args...), after: recheck,
	}
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

// resultOf decides when to look again after a pass. lookAgain is when one without a fault is to be followed by another, or 0.
func resultOf(fault *phaseError, lookAgain time.Duration) (ctrl.Result, error) {
	switch {
	case fault != nil && fault.after > 0:
		return ctrl.Result{RequeueAfter: fault.after}, nil
	case fault != nil && fault.kind == kindPlatform:
		return ctrl.Result{}, fault
	default:
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
}
