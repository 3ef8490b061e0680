// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
)

func TestResultOf(t *testing.T) {
	t.Parallel()
	const condition, reason = v1alpha1.ConditionBuilt, "Reason"
	paced := &phaseError{kind: kindPlatform, condition: condition, reason: reason, after: time.Minute}
	tests := map[string]struct {
		err       error
		lookAgain time.Duration
		want      time.Duration
		// retried says that the error is returned, so that the queue tries again with a growing delay.
		retried bool
	}{
		"nothing to wait for":             {},
		"a pass that is to be followed":   {lookAgain: time.Second, want: time.Second},
		"the user has to act":             {err: stalled(condition, reason, "x")},
		"the user has to act, and a tick": {err: stalled(condition, reason, "x"), lookAgain: time.Second, want: time.Second},
		"unseen":                          {err: unwatched(condition, reason, "x"), want: recheck},
		"work elsewhere":                  {err: waiting(condition, reason, "x")},
		"a build":                         {err: building(reason, "x"), want: recheck},
		"the platform":                    {err: platform(condition, reason, "x", nil), lookAgain: time.Second, retried: true},
		"the platform at its own pace":    {err: paced, want: time.Minute},
		"something unexpected":            {err: errors.New("x"), retried: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := resultOf(asPhaseError(tc.err), tc.lookAgain)
			if result.RequeueAfter != tc.want || (err != nil) != tc.retried {
				t.Errorf("looked at again after %v, error %v", result.RequeueAfter, err)
			}
		})
	}
}

func TestAttemptsAreCountedApart(t *testing.T) {
	t.Parallel()
	known := newKnownCache()
	for want := 1; want <= 3; want++ {
		if got := known.attempted("build"); got != want || known.attempts("build") != want {
			t.Errorf("attempt %d counts as %d, and then %d", want, got, known.attempts("build"))
		}
	}
	if got := known.attempts("preflight"); got != 0 {
		t.Errorf("another one has %d attempts", got)
	}
}
