// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/naming"
)

// functionJobScope holds everything that one pass over a FunctionJob has read and decided. The status is computed from it
// at the end.
type functionJobScope struct {
	fj  *v1alpha1.FunctionJob
	now time.Time

	// following is true while the status speaks of a run that has not ended, so that it may not be forgotten.
	following bool
	// job and run are those of the run that goes on or has just ended, nil when there is none.
	job *batchv1.Job
	run *plan.Run
	// runID and began belong to run.
	runID int64
	began time.Time
	// events are told once the status is written.
	events []runEvent
}

// runEvent is something that a user wants to know of.
type runEvent struct {
	kind, reason, note string
}

func newFunctionJobScope(fj *v1alpha1.FunctionJob, now time.Time) *functionJobScope {
	return &functionJobScope{fj: fj, now: now}
}

func (s *functionJobScope) deployNamespace() string {
	return naming.DeployNamespace(s.fj.Namespace)
}

// begin notes that a run was begun.
func (s *functionJobScope) begin(job *batchv1.Job, runID int64, at time.Time) {
	s.job, s.runID, s.began = job, runID, at
	s.events = append(s.events, runEvent{corev1.EventTypeNormal, v1alpha1.ReasonRunning,
		fmt.Sprintf("run %d began as Job %s/%s", runID, job.Namespace, job.Name)})
}

// adopt notes that a run was begun before, whose Job may be gone.
func (s *functionJobScope) adopt(job *batchv1.Job, runID int64, at time.Time) {
	if job != nil {
		s.begin(job, runID, at)
		return
	}
	s.runID, s.began = runID, at
}

// observe notes how a run goes.
func (s *functionJobScope) observe(run plan.Run) {
	s.run = &run
	switch {
	case !run.Ended:
	case run.Succeeded:
		s.events = append(s.events, runEvent{corev1.EventTypeNormal, v1alpha1.ReasonSucceeded,
			fmt.Sprintf("run %d succeeded", s.runID)})
	default:
		s.events = append(s.events, runEvent{corev1.EventTypeWarning, run.Reason,
			fmt.Sprintf("run %d failed: %s", s.runID, run.Message)})
	}
}
