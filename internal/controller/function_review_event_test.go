// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"github.com/naeel/sless/api/v1alpha1"
)

// TestNewRefusal follows Functions from one status to the next.
func TestNewRefusal(t *testing.T) {
	t.Parallel()
	refused := func(digest string) *phaseError {
		fault, _ := stalled(v1alpha1.ConditionCodeReviewed, v1alpha1.ReasonCodeRejected, "refused the code %s", digest).(*phaseError)
		return fault
	}
	status := func(s *functionScope, fault *phaseError) *v1alpha1.Function {
		if fault != nil {
			delete(s.done, fault.condition)
		}
		s.fn.Status = computeFunctionStatus(s, fault, statusConfig())
		return s.fn
	}
	good := func() *v1alpha1.Function { return status(runningScope(1), nil) }
	bad := func(digest string) *v1alpha1.Function { return status(runningScope(1), refused(digest)) }
	badAndDisabled := func(digest string) *v1alpha1.Function { return status(disabledScope(0), refused(digest)) }
	fresh := runningScope(1).fn
	tests := map[string]struct {
		before, after *v1alpha1.Function
		want          string
	}{
		"good":                     {before: fresh, after: good()},
		"bad from the beginning":   {before: fresh, after: bad("a"), want: "refused the code a"},
		"bad after good":           {before: good(), after: bad("a"), want: "refused the code a"},
		"as bad as before":         {before: bad("a"), after: bad("a")},
		"bad in another way":       {before: bad("a"), after: bad("b"), want: "refused the code b"},
		"good again":               {before: bad("a"), after: good()},
		"bad while it is disabled": {before: status(disabledScope(0), nil), after: badAndDisabled("a"), want: "refused the code a"},
		"disabled and bad still":   {before: badAndDisabled("a"), after: badAndDisabled("a")},
		"disabled when it was bad": {before: bad("a"), after: badAndDisabled("a")},
		"enabled, and still bad":   {before: badAndDisabled("a"), after: bad("a"), want: "refused the code a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := newRefusal(tc.before, tc.after); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
