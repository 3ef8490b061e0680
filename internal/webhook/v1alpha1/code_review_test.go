// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/internal/testutil"
	"github.com/naeel/sless/internal/validator"
	"github.com/naeel/sless/runtimes"
)

// fixedValidator gives the same judgement about all code, and counts.
type fixedValidator struct {
	safe  bool
	err   error
	calls int
}

func (f *fixedValidator) Validate(context.Context, map[string]string, string) (bool, string, error) {
	f.calls++
	return f.safe, "starts a miner", f.err
}

func TestGateReviewer(t *testing.T) {
	t.Parallel()
	catalogue, err := runtimes.Load()
	if err != nil {
		t.Fatal(err)
	}
	rt, _ := catalogue.Lookup("python3.11")
	digest, err := validator.InlineDigest(map[string]string{"handler.py": "x = 1"}, rt)
	if err != nil {
		t.Fatal(err)
	}
	failed := &validator.Failure{Cause: validator.CauseStatus, Err: errors.New("500")}
	tests := map[string]struct {
		validator fixedValidator
		policy    validator.FailurePolicy
		file      string
		dryRun    bool
		want      Review
		wantError string
		wantCalls int
	}{
		"accepted":   {validator: fixedValidator{safe: true}, wantCalls: 1},
		"rejected":   {want: Review{Denied: "starts a miner", Digest: digest}, wantCalls: 1},
		"dry run":    {dryRun: true},
		"no verdict": {validator: fixedValidator{err: failed}, want: Review{Warnings: []string{"the code was not reviewed: the reviewer answered with an error"}}, wantCalls: 1},
		"Fail":       {validator: fixedValidator{err: failed}, policy: validator.Fail, wantError: "the code cannot be reviewed now: the reviewer answered with an error; try again", wantCalls: 1},
		"a bad path": {file: "../x", want: Review{Denied: `"../x" leads out of the source`}},
		"unknown":    {file: "logo.png", validator: fixedValidator{safe: true}, wantCalls: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judge := &tc.validator
			gate := validator.NewGate(validator.Config{Enabled: true, FailurePolicy: tc.policy}, judge, validator.Options{})
			fn := testutil.MakeFunction("cart", "shop").File("handler.py", "x = 1")
			if tc.file != "" {
				fn = fn.File(tc.file, "")
			}
			got, err := NewReviewer(gate, catalogue).Review(t.Context(), fn.Obj(), tc.dryRun)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err != nil || tc.wantError != "") && (err == nil || err.Error() != tc.wantError) {
				t.Errorf("got error %v, want %q", err, tc.wantError)
			}
			if judge.calls != tc.wantCalls {
				t.Errorf("the model was asked %d times, want %d", judge.calls, tc.wantCalls)
			}
		})
	}
	if NewReviewer(nil, catalogue) != nil || NewReviewer(validator.NewGate(validator.Config{}, nil, validator.Options{}), catalogue) != nil {
		t.Error("there is a reviewer although the review is off")
	}
}
