// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/plan"
)

// computeTriggerStatus returns the status that follows from what a pass has seen. fault is what ended the pass early.
func computeTriggerStatus(s *triggerScope, fault *phaseError, gateway config.Gateway) v1alpha1.TriggerStatus {
	status := *s.trigger.Status.DeepCopy()
	status.ObservedGeneration = s.trigger.Generation
	// A fault of the platform may have ended the pass before the host was looked at, and takes it from nobody.
	if fault == nil || fault.kind == kindStalled {
		status.Host = s.host
	}
	status.URL = triggerURL(s, fault, gateway)
	status.Active = new(plan.Enabled(s.trigger) && s.fn != nil && fault == nil)
	status.NextScheduleTime = nil
	if !s.nextTick.IsZero() {
		status.NextScheduleTime = new(metav1.NewTime(s.nextTick))
	}
	if !s.lastTick.IsZero() {
		status.LastScheduleTime = new(metav1.NewTime(s.lastTick))
	}

	set := func(kind string, v verdict) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: v.status, Reason: v.reason, Message: truncate(v.message, maxConditionMessage),
			ObservedGeneration: s.trigger.Generation, LastTransitionTime: metav1.NewTime(s.now),
		})
	}
	ready := triggerReadiness(s, fault)
	set(v1alpha1.ConditionReady, ready.verdict)
	set(v1alpha1.ConditionReconciling, flag(ready.reconciling, ready.verdict))
	set(v1alpha1.ConditionStalled, flag(ready.stalled, ready.verdict))
	switch {
	case s.run == nil: // nothing ran yet, or what is left of it was cleaned up: what is known stays
	case s.run.Failed:
		set(v1alpha1.ConditionLastRunSucceeded,
			failed(v1alpha1.ReasonLastRunFailed, fmt.Sprintf("run %s: %s", s.run.Job, s.run.Message)))
	default:
		// The message names no run, so that a run that succeeds writes nothing.
		set(v1alpha1.ConditionLastRunSucceeded, succeeded(v1alpha1.ReasonSucceeded, "the last run that ended succeeded"))
	}
	return status
}

func triggerURL(s *triggerScope, fault *phaseError, gateway config.Gateway) string {
	host, _ := triggerHost(s.trigger, gateway)
	switch {
	case s.trigger.Spec.Type != v1alpha1.TriggerTypeHTTP:
		return ""
	case s.host != "":
		return gateway.HostURL(s.host)
	case fault != nil && fault.kind != kindStalled:
		return s.trigger.Status.URL
	case host != "" || s.fn == nil:
		return ""
	default:
		return pathURL(s.trigger.Namespace, s.trigger.Spec.FunctionRef.Name, gateway)
	}
}

func triggerReadiness(s *triggerScope, fault *phaseError) readiness {
	switch {
	case fault != nil:
		return faultReadiness(fault)
	case !plan.Enabled(s.trigger):
		return readiness{verdict: failed(v1alpha1.ReasonDisabled, "spec.enabled is false"), stalled: true}
	case s.fn == nil:
		return readiness{stalled: true, verdict: failed(v1alpha1.ReasonFunctionNotFound,
			fmt.Sprintf("Function %s does not exist in this namespace", s.trigger.Spec.FunctionRef.Name))}
	}
	if ready := readyOf(s.fn); ready.Status != metav1.ConditionTrue {
		message := fmt.Sprintf("Function %s is not ready: %s", s.fn.Name, ready.Reason)
		if meta.IsStatusConditionTrue(s.fn.Status.Conditions, v1alpha1.ConditionStalled) {
			return readiness{verdict: failed(v1alpha1.ReasonPending, message), stalled: true}
		}
		return readiness{verdict: unknown(v1alpha1.ReasonPending, message), reconciling: true}
	}
	if s.trigger.Spec.Type == v1alpha1.TriggerTypeCron {
		return readiness{verdict: succeeded(v1alpha1.ReasonReady, "the function is called at status.nextScheduleTime")}
	}
	switch fault := s.unrouted; {
	case fault == nil:
		return readiness{verdict: succeeded(v1alpha1.ReasonReady, "the function answers at status.url")}
	case fault.User:
		return readiness{verdict: failed(fault.Reason, fault.Message), stalled: true}
	default:
		return readiness{verdict: unknown(fault.Reason, fault.Message), reconciling: true}
	}
}
