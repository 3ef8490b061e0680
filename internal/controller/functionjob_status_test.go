// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/testutil"
)

var jobTime = time.Date(2026, time.January, 1, 12, 0, 0, 500_000_000, time.UTC)

func jobAt(offset time.Duration) *metav1.Time {
	return &metav1.Time{Time: jobTime.Truncate(time.Second).Add(offset)}
}

// jobStates are the four conditions of a FunctionJob as "Complete Failed Reconciling Stalled", and their reason.
func jobStates(status v1alpha1.FunctionJobStatus) string {
	text := ""
	for _, kind := range []string{"Complete", "Failed", "Reconciling", "Stalled"} {
		if meta.IsStatusConditionTrue(status.Conditions, kind) {
			text += kind + " "
		}
	}
	return text + meta.FindStatusCondition(status.Conditions, "Complete").Reason
}

func TestComputeFunctionJobStatus(t *testing.T) {
	t.Parallel()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j-1", Namespace: "sless-fn-n"}}
	logs := func(pod string) *v1alpha1.FunctionJobLogs {
		return &v1alpha1.FunctionJobLogs{Namespace: "sless-fn-n", Job: "j-1", Pod: pod, Container: "function"}
	}
	runs := v1alpha1.FunctionJobStatus{
		Phase: v1alpha1.JobPhaseRunning, RunID: 1, Attempts: 1, StartTime: jobAt(-time.Minute), Logs: logs(""),
	}
	ended := v1alpha1.FunctionJobStatus{
		Phase: v1alpha1.JobPhaseSucceeded, RunID: 1, Attempts: 1, StartTime: jobAt(-time.Minute), CompletionTime: jobAt(-time.Second),
		Result: &runtime.RawExtension{Raw: []byte(`{"a":1}`)}, Logs: logs("p"),
		Conditions: []metav1.Condition{{Type: "Complete", Status: metav1.ConditionTrue, Reason: "Succeeded"}},
	}
	tests := map[string]struct {
		asked  int64
		before v1alpha1.FunctionJobStatus
		change func(*functionJobScope)
		fault  error
		want   v1alpha1.FunctionJobStatus
		// wantStates are the True conditions and the reason.
		wantStates string
	}{
		"declared": {wantStates: "Skipped",
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseSkipped, Message: "runID is 0: declared, not run"}},
		"function building": {asked: 1, fault: waiting("Complete", "Building", "Function f is not ready: wait"), wantStates: "Reconciling Building",
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhasePending, RunID: 1, Message: "Building: Function f is not ready: wait"}},
		"function unknown": {asked: 1, fault: stalled("Complete", "FunctionNotFound", "no f"), wantStates: "Stalled FunctionNotFound",
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhasePending, RunID: 1, Message: "FunctionNotFound: no f"}},
		"asked again, cannot begin: the old result is forgotten": {asked: 2, before: ended, fault: waiting("Complete", "RollingOut", "wait"),
			wantStates: "Reconciling RollingOut",
			want:       v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhasePending, RunID: 2, Message: "RollingOut: wait"}},
		"begun": {asked: 1, wantStates: "Reconciling Running",
			change: func(s *functionJobScope) { s.begin(job, 1, jobTime); s.observe(plan.Run{Attempts: 1}) },
			want:   v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseRunning, RunID: 1, Attempts: 1, StartTime: jobAt(0), Logs: logs("")}},
		"begun again": {asked: 2, before: ended, wantStates: "Reconciling Running",
			change: func(s *functionJobScope) { s.begin(job, 2, jobTime); s.observe(plan.Run{Attempts: 1}) },
			want:   v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseRunning, RunID: 2, Attempts: 1, StartTime: jobAt(0), Logs: logs("")}},
		"waits for an image": {asked: 1, before: runs, wantStates: "Reconciling Running",
			change: follow(job, plan.Run{Attempts: 1, Reason: "ImagePullFailed", Message: "no host"}),
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseRunning, RunID: 1, Attempts: 1, StartTime: jobAt(-time.Minute),
				Logs: logs(""), Message: "ImagePullFailed: no host"}},
		"second attempt": {asked: 1, before: runs, wantStates: "Reconciling Running",
			change: follow(job, plan.Run{Attempts: 2, Reason: "HandlerFailed", Message: "no", Pod: "p"}),
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseRunning, RunID: 1, Attempts: 2, StartTime: jobAt(-time.Minute),
				Logs: logs("p"), Message: "attempt 2: HandlerFailed: no"}},
		"goes on while the next one waits": {asked: 4, before: runs, wantStates: "Reconciling Running", change: follow(job, plan.Run{Attempts: 1}),
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseRunning, RunID: 1, Attempts: 1, StartTime: jobAt(-time.Minute),
				Logs: logs(""), Message: "run 4 waits until run 1 has ended"}},
		"cannot be looked at while the next one waits": {asked: 4, before: runs, fault: errors.New("API down"),
			change: func(s *functionJobScope) { s.following = true }, wantStates: "Reconciling InternalError",
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseRunning, RunID: 1, Attempts: 1, StartTime: jobAt(-time.Minute),
				Logs: logs(""), Message: "API down"}},
		"succeeded": {asked: 1, before: runs, wantStates: "Complete Succeeded",
			change: follow(job, plan.Run{Attempts: 1, Ended: true, Succeeded: true, Pod: "p", Result: []byte(`{"b":null}`)}),
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseSucceeded, RunID: 1, Attempts: 1, StartTime: jobAt(-time.Minute),
				CompletionTime: jobAt(0), Logs: logs("p"), Result: &runtime.RawExtension{Raw: []byte(`{"b":null}`)}}},
		"succeeded with a long result": {asked: 1, before: runs, wantStates: "Complete Succeeded",
			change: follow(job, plan.Run{Attempts: 1, Ended: true, Succeeded: true, Pod: "p", Truncated: true, Message: "in the log"}),
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseSucceeded, RunID: 1, Attempts: 1, StartTime: jobAt(-time.Minute),
				CompletionTime: jobAt(0), Logs: logs("p"), ResultTruncated: new(true), Message: "in the log"}},
		"failed": {asked: 1, before: runs, wantStates: "Failed Stalled HandlerTimeout",
			change: follow(job, plan.Run{Attempts: 1, Ended: true, Pod: "p", Reason: "HandlerTimeout", Message: "3 s"}),
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseFailed, RunID: 1, Attempts: 1, StartTime: jobAt(-time.Minute),
				CompletionTime: jobAt(0), Logs: logs("p"), Message: "HandlerTimeout: 3 s"}},
		"Job deleted": {asked: 1, before: runs, wantStates: "Failed Stalled RunDeleted",
			change: follow(nil, plan.Run{Ended: true, Reason: "RunDeleted", Message: "gone"}),
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseFailed, RunID: 1, StartTime: jobAt(-time.Minute), CompletionTime: jobAt(0),
				Message: "RunDeleted: gone"}},
		"nothing new about an ended run": {asked: 1, before: ended, wantStates: "Complete Succeeded",
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseSucceeded, RunID: 1, Attempts: 1, StartTime: jobAt(-time.Minute),
				CompletionTime: jobAt(-time.Second), Logs: logs("p"), Result: &runtime.RawExtension{Raw: []byte(`{"a":1}`)}}},
		"a clock that went back": {asked: 1, wantStates: "Complete Succeeded",
			before: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseRunning, RunID: 1, StartTime: jobAt(time.Hour)},
			change: follow(job, plan.Run{Attempts: 1, Ended: true, Succeeded: true, Pod: "p"}),
			want: v1alpha1.FunctionJobStatus{Phase: v1alpha1.JobPhaseSucceeded, RunID: 1, Attempts: 1, StartTime: jobAt(time.Hour),
				CompletionTime: jobAt(time.Hour), Logs: logs("p")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fj := testutil.MakeFunctionJob("j", "n", "f").Run(tc.asked).Generation(7).Obj()
			fj.Status = *tc.before.DeepCopy()
			s := newFunctionJobScope(fj, jobTime)
			if tc.change != nil {
				tc.change(s)
			}
			got := computeFunctionJobStatus(s, asPhaseError(tc.fault))
			if states := jobStates(got); states != tc.wantStates {
				t.Errorf("conditions %q, want %q", states, tc.wantStates)
			}
			for _, c := range got.Conditions {
				if c.ObservedGeneration != 7 {
					t.Errorf("%s speaks of generation %d", c.Type, c.ObservedGeneration)
				}
			}
			tc.want.ObservedGeneration = 7
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(v1alpha1.FunctionJobStatus{}, "Conditions")); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			// A second pass that sees the same writes nothing.
			again := newFunctionJobScope(fj, jobTime.Add(time.Minute))
			fj.Status = got
			if plan.NextRunStep(fj) != plan.RunDone {
				return
			}
			if diff := cmp.Diff(got, computeFunctionJobStatus(again, nil)); diff != "" {
				t.Errorf("a second pass changes the status (-first +second):\n%s", diff)
			}
		})
	}
}

// follow is a pass over a run that goes on.
func follow(job *batchv1.Job, run plan.Run) func(*functionJobScope) {
	return func(s *functionJobScope) {
		s.following, s.job, s.runID, s.began = true, job, s.fj.Status.RunID, s.fj.Status.StartTime.Time
		s.observe(run)
	}
}

func TestTimeLeft(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ttl       *int32
		completed *metav1.Time
		want      time.Duration
		wantOK    bool
	}{
		"for ever":               {completed: jobAt(0)},
		"not ended":              {ttl: ptr.To[int32](0)},
		"at once":                {ttl: ptr.To[int32](0), completed: jobAt(0), want: -500 * time.Millisecond, wantOK: true},
		"some time left":         {ttl: ptr.To[int32](10), completed: jobAt(-4 * time.Second), want: 5500 * time.Millisecond, wantOK: true},
		"over":                   {ttl: ptr.To[int32](10), completed: jobAt(-time.Hour), want: 10*time.Second - time.Hour - 500*time.Millisecond, wantOK: true},
		"ended by another clock": {ttl: ptr.To[int32](10), completed: jobAt(time.Hour), want: 10 * time.Second, wantOK: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fj := testutil.MakeFunctionJob("j", "n", "f").Run(1).Obj()
			fj.Spec.TTLSecondsAfterFinished, fj.Status.CompletionTime = tc.ttl, tc.completed
			if got, ok := timeLeft(fj, jobTime); got != tc.want || ok != tc.wantOK {
				t.Errorf("timeLeft = %s, %v, want %s, %v", got, ok, tc.want, tc.wantOK)
			}
		})
	}
}
