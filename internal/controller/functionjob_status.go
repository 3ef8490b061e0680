// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
)

// maxJobMessage is what the schema allows.
const maxJobMessage = 4096

// jobVerdict is what the conditions of a FunctionJob say.
type jobVerdict struct {
	complete, failed, reconciling, stalled verdict
}

// computeFunctionJobStatus returns the status that follows from what a pass has seen. fault is what keeps a run from being
// begun, or from being looked at.
func computeFunctionJobStatus(s *functionJobScope, fault *phaseError) v1alpha1.FunctionJobStatus {
	status := *s.fj.Status.DeepCopy()
	status.ObservedGeneration = s.fj.Generation
	switch {
	case s.run != nil:
		recordRun(&status, s)
	case fault != nil && s.following:
		// The run could not be looked at. What was known of it stays true.
		status.Message = truncate(fault.message, maxJobMessage)
	case fault != nil:
		status = pendingStatus(s, status, fault)
	case plan.NextRunStep(s.fj) == plan.RunSkip:
		status.Phase, status.Message = v1alpha1.JobPhaseSkipped, "runID is 0: declared, not run"
	}
	setJobConditions(&status, s, fault)
	return status
}

// pendingStatus forgets the run before: a user who waits for the new one must not be told of the old one's end.
func pendingStatus(s *functionJobScope, old v1alpha1.FunctionJobStatus, fault *phaseError) v1alpha1.FunctionJobStatus {
	return v1alpha1.FunctionJobStatus{
		Phase: v1alpha1.JobPhasePending, RunID: s.fj.Spec.RunID, Conditions: old.Conditions,
		ObservedGeneration: old.ObservedGeneration, Message: reasoned(fault.reason, fault.message),
	}
}

// recordRun writes down a run that goes on or has ended.
func recordRun(status *v1alpha1.FunctionJobStatus, s *functionJobScope) {
	run := s.run
	if status.StartTime == nil || status.RunID != s.runID {
		status.StartTime = new(metav1.NewTime(s.began.Truncate(time.Second)))
		status.CompletionTime, status.Result, status.ResultTruncated = nil, nil, nil
	}
	status.RunID, status.Attempts = s.runID, run.Attempts
	status.Phase, status.Message = v1alpha1.JobPhaseRunning, reasoned(run.Reason, run.Message)
	if run.Reason != "" && !run.Ended && run.Pod != "" {
		status.Message = truncate(fmt.Sprintf("attempt %d: %s", run.Attempts, status.Message), maxJobMessage)
	}
	if s.fj.Spec.RunID > s.runID && !run.Ended {
		status.Message = fmt.Sprintf("run %d waits until run %d has ended", s.fj.Spec.RunID, s.runID)
	}
	status.Logs = nil
	if s.job != nil {
		status.Logs = &v1alpha1.FunctionJobLogs{
			Namespace: s.job.Namespace, Job: s.job.Name, Pod: run.Pod, Container: resources.ContainerName,
		}
	}
	if !run.Ended {
		return
	}
	status.CompletionTime = new(metav1.NewTime(s.now.Truncate(time.Second)))
	if status.CompletionTime.Before(status.StartTime) {
		status.CompletionTime = status.StartTime.DeepCopy()
	}
	if !run.Succeeded {
		status.Phase = v1alpha1.JobPhaseFailed
		return
	}
	status.Phase = v1alpha1.JobPhaseSucceeded
	if run.Truncated {
		status.ResultTruncated = new(true)
	}
	if run.Result != nil {
		status.Result = &runtime.RawExtension{Raw: run.Result}
	}
}

func reasoned(reason, message string) string {
	if reason == "" {
		return truncate(message, maxJobMessage)
	}
	return truncate(reason+": "+message, maxJobMessage)
}

func setJobConditions(status *v1alpha1.FunctionJobStatus, s *functionJobScope, fault *phaseError) {
	v := jobConditions(status, s, fault)
	for _, c := range []struct {
		kind string
		verdict
	}{
		{v1alpha1.ConditionComplete, v.complete},
		{v1alpha1.ConditionFailed, v.failed},
		{v1alpha1.ConditionReconciling, v.reconciling},
		{v1alpha1.ConditionStalled, v.stalled},
	} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: c.kind, Status: c.status, Reason: c.reason, Message: truncate(c.message, maxConditionMessage),
			ObservedGeneration: s.fj.Generation, LastTransitionTime: metav1.NewTime(s.now),
		})
	}
}

func jobConditions(status *v1alpha1.FunctionJobStatus, s *functionJobScope, fault *phaseError) jobVerdict {
	why := verdict{reason: v1alpha1.ReasonPending, message: status.Message}
	switch status.Phase {
	case v1alpha1.JobPhaseSucceeded:
		why.reason = v1alpha1.ReasonSucceeded
		return jobVerdict{succeeded(why.reason, why.message), flag(false, why), flag(false, why), flag(false, why)}
	case v1alpha1.JobPhaseFailed:
		why.reason = failureReason(status, s)
		return jobVerdict{failed(why.reason, ""), flag(true, why), flag(false, why), flag(true, why)}
	case v1alpha1.JobPhaseSkipped:
		why.reason = v1alpha1.ReasonSkipped
		return jobVerdict{failed(why.reason, why.message), flag(false, why), flag(false, why), flag(false, why)}
	case v1alpha1.JobPhaseRunning:
		why.reason = v1alpha1.ReasonRunning
	}
	stuck := false
	if fault != nil {
		why.reason, stuck = fault.reason, fault.kind == kindStalled
	}
	return jobVerdict{failed(why.reason, why.message), flag(false, why), flag(!stuck, why), flag(stuck, why)}
}

// failureReason is that of the run that has just ended, or the one that was written down when it did.
func failureReason(status *v1alpha1.FunctionJobStatus, s *functionJobScope) string {
	if s.run != nil {
		return s.run.Reason
	}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFailed); c != nil {
		return c.Reason
	}
	return v1alpha1.ReasonInternalError
}
