// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
)

// maxConditionMessage is what the API server accepts.
const maxConditionMessage = 32768

// verdict is a condition before it is written.
type verdict struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

// computeFunctionStatus returns the status that follows from what a pass has seen. fault is what ended the pass early.
func computeFunctionStatus(s *functionScope, fault *phaseError, cfg *config.Config) v1alpha1.FunctionStatus {
	status := *s.fn.Status.DeepCopy()
	status.ObservedGeneration = s.fn.Generation
	status.URL = functionURL(s, cfg.Gateway)
	status.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: resources.SelectorLabels(s.fn)})
	status.Replicas = 0
	if s.deployment != nil {
		status.Replicas = s.deployment.Status.Replicas
	}
	if digest := s.codeDigest(); digest != "" {
		status.SourceDigest = digest
	}
	recordRevision(&status, s)
	recordImage(&status, s)

	set := func(kind string, v verdict) { setCondition(&status.Conditions, s, kind, v) }
	set(v1alpha1.ConditionScalingActive, scalingVerdict(s))
	cannotWake, _ := plan.CannotWake(status.Conditions, s.now)
	ready := readyVerdict(s, fault, cannotWake)
	for _, cause := range []string{
		v1alpha1.ConditionSourceReady, v1alpha1.ConditionCodeReviewed, v1alpha1.ConditionBuilt,
	} {
		set(cause, causeVerdict(s, fault, cause))
	}
	set(v1alpha1.ConditionAvailable, availableVerdict(s))
	set(v1alpha1.ConditionReady, ready.verdict)
	set(v1alpha1.ConditionReconciling, flag(ready.reconciling, ready.why()))
	set(v1alpha1.ConditionStalled, flag(ready.stalled, ready.why()))
	status.Phase = phaseOf(ready)
	return status
}

// recordRevision remembers the commit that the code is, as long as the source is a repository.
func recordRevision(status *v1alpha1.FunctionStatus, s *functionScope) {
	if s.fn.Spec.Source.Git == nil || s.observedSource != "" {
		status.SourceRevision, status.ObservedSource = s.sourceRevision, s.observedSource
	}
}

// recordImage remembers the image of the wanted version, and those before it.
func recordImage(status *v1alpha1.FunctionStatus, s *functionScope) {
	switch s.image {
	case "":
		return
	case status.Image:
		// The same image may be reached over another base, and records from before there was a base have none.
		if s.buildBase != "" && len(status.History) > 0 && status.History[0].Image == s.image {
			status.History[0].Base = s.buildBase
		}
		return
	}
	status.Image = s.image
	status.LastBuiltAt = new(metav1.NewTime(s.now))
	record := v1alpha1.ImageRecord{Image: s.image, Base: s.buildBase, SourceDigest: s.codeDigest(), BuiltAt: status.LastBuiltAt}
	history := []v1alpha1.ImageRecord{record}
	for _, old := range status.History {
		if old.Image != s.image && len(history) < v1alpha1.MaxHistory {
			history = append(history, old)
		}
	}
	status.History = history
}

// readiness is the Ready condition with what it means for the others.
type readiness struct {
	verdict
	reconciling bool
	stalled     bool
	// besides is what else is the matter with a Function that is switched off, or nil. Reconciling and Stalled are about that:
	// it tells whether the version that is wanted is there for when the Function is switched on, and for runs.
	besides *verdict
}

// why is what Reconciling and Stalled give as their reason.
func (r readiness) why() verdict {
	if r.besides != nil {
		return *r.besides
	}
	return r.verdict
}

// readyVerdict decides on Ready. cannotWake says why calls at zero replicas are in vain, and is empty when they are not.
func readyVerdict(s *functionScope, fault *phaseError, cannotWake string) readiness {
	if s.disabled != "" {
		return disabledReadiness(s, fault)
	}
	if fault != nil {
		return faultReadiness(fault)
	}
	if plan.RolledOut(s.deployment, s.revision) && asManyAsWanted(s) {
		return rolledOutReadiness(s, cannotWake)
	}
	if podFault := plan.PodFault(s.pods, s.revision); podFault != nil {
		return readiness{
			verdict: failed(podFault.Reason, podFault.Message), stalled: podFault.User, reconciling: !podFault.User,
		}
	}
	if refused := plan.ReplicaFailure(s.deployment); refused != nil {
		return readiness{verdict: failed(refused.Reason, refused.Message), reconciling: true}
	}
	if s.scaling == plan.ScalingAuto && plan.Settled(s.deployment, s.revision) {
		return readiness{verdict: succeeded(v1alpha1.ReasonReady, "calls are answered by the wanted version")}
	}
	return readiness{verdict: unknown(v1alpha1.ReasonRollingOut, "the new version is starting"), reconciling: true}
}

// asManyAsWanted tells whether the Deployment asked for the wanted number of replicas when this pass began. What the pass has
// changed since is not observed yet.
func asManyAsWanted(s *functionScope) bool {
	wanted := wantedReplicas(s)
	return wanted == nil || s.deployment != nil && ptr.Deref(s.deployment.Spec.Replicas, 1) == *wanted
}

// disabledReadiness is that of a Function that its Triggers switch off. That comes before everything else, so that calls
// are refused at once. What else is wrong is told beside it.
func disabledReadiness(s *functionScope, fault *phaseError) readiness {
	r := readiness{verdict: failed(v1alpha1.ReasonDisabled, s.disabled), stalled: true}
	if fault != nil {
		other := faultReadiness(fault)
		r.message += "; besides, " + fault.reason + ": " + fault.message
		r.stalled, r.reconciling, r.besides = other.stalled, other.reconciling, &other.verdict
	}
	return r
}

func faultReadiness(fault *phaseError) readiness {
	switch fault.kind {
	case kindStalled:
		return readiness{verdict: failed(fault.reason, fault.message), stalled: true}
	case kindWaiting:
		return readiness{verdict: unknown(fault.reason, fault.message), reconciling: true}
	default:
		return readiness{verdict: failed(fault.reason, fault.message), reconciling: true}
	}
}

func rolledOutReadiness(s *functionScope, cannotWake string) readiness {
	if s.scaling == plan.ScalingAuto && ptr.Deref(s.deployment.Spec.Replicas, 1) == 0 {
		if cannotWake != "" {
			return readiness{
				verdict:     failed(v1alpha1.ReasonAutoscalerFailed, "the function is at zero replicas, and calls cannot wake it: "+cannotWake),
				reconciling: true,
			}
		}
		return readiness{verdict: succeeded(v1alpha1.ReasonReady, "the function is idle at zero replicas; the next call wakes it")}
	}
	if ptr.Deref(s.deployment.Spec.Replicas, 1) == 0 {
		return readiness{
			verdict: failed(v1alpha1.ReasonScaledToZero, "spec.replicas is 0, so that nothing answers calls"), stalled: true,
		}
	}
	return readiness{verdict: succeeded(v1alpha1.ReasonReady, "calls are answered by the wanted version")}
}

func causeVerdict(s *functionScope, fault *phaseError, condition string) verdict {
	if done, ok := s.done[condition]; ok {
		return succeeded(done.reason, done.message)
	}
	if s.sourceFault != nil && condition == v1alpha1.ConditionSourceReady {
		return faultReadiness(asPhaseError(s.sourceFault)).verdict
	}
	if fault == nil {
		return unknown(v1alpha1.ReasonPending, "not looked at yet")
	}
	if fault.condition != condition {
		return unknown(v1alpha1.ReasonPending, "waits for an earlier step: "+fault.reason)
	}
	return faultReadiness(fault).verdict
}

func availableVerdict(s *functionScope) verdict {
	switch {
	case s.deployment == nil:
		return failed(v1alpha1.ReasonPending, "no version runs yet")
	case s.deployment.Status.ReadyReplicas > 0:
		return succeeded(v1alpha1.ReasonReady, "a version answers calls")
	case s.disabled != "":
		return failed(v1alpha1.ReasonDisabled, s.disabled)
	case ptr.Deref(s.deployment.Spec.Replicas, 1) == 0 && s.scaling == plan.ScalingAuto:
		return succeeded(v1alpha1.ReasonAtZero, "a call wakes the function")
	case ptr.Deref(s.deployment.Spec.Replicas, 1) == 0:
		return failed(v1alpha1.ReasonScaledToZero, "spec.replicas is 0")
	}
	if fault := plan.PodFault(s.pods, wantedRevision(s.deployment)); fault != nil {
		return failed(fault.Reason, fault.Message)
	}
	if s.scaling == plan.ScalingAuto && plan.Settled(s.deployment, wantedRevision(s.deployment)) {
		return succeeded(v1alpha1.ReasonWaking, "the function wakes; calls wait for its first replica")
	}
	return failed(v1alpha1.ReasonRollingOut, "no pod is ready yet")
}

func scalingVerdict(s *functionScope) verdict {
	facts := plan.ScalingFacts{Mode: s.scaling, Disabled: s.disabled != "", Away: s.away, ScaledObject: s.scaledObject}
	if s.deployment != nil {
		facts.Replicas = ptr.Deref(s.deployment.Spec.Replicas, 1)
	}
	active, reason, message := plan.ScalingState(s.fn, facts)
	if active {
		return succeeded(reason, message)
	}
	return failed(reason, message)
}

func phaseOf(ready readiness) v1alpha1.FunctionPhase {
	switch {
	case ready.status == metav1.ConditionTrue:
		return v1alpha1.PhaseReady
	case ready.reason == v1alpha1.ReasonScaledToZero, ready.reason == v1alpha1.ReasonDisabled:
		return v1alpha1.PhaseDisabled
	case ready.reason == v1alpha1.ReasonBuilding, ready.reason == v1alpha1.ReasonBuildQueued:
		return v1alpha1.PhaseBuilding
	case ready.status == metav1.ConditionFalse:
		return v1alpha1.PhaseFailed
	default:
		return v1alpha1.PhasePending
	}
}

// functionURL returns where the Function is called. Without an address of the gateway that is its host name below the
// domain of functions, once an http Trigger has it. One that only asks for it may have lost it to another Function, since
// names of namespaces and Functions may give the same host.
func functionURL(s *functionScope, gateway config.Gateway) string {
	if gateway.ExternalURL != "" {
		return pathURL(s.fn.Namespace, s.fn.Name, gateway)
	}
	for i := range s.triggers {
		if host, derived := triggerHost(&s.triggers[i], gateway); derived && host == s.triggers[i].Status.Host {
			return gateway.HostURL(host)
		}
	}
	return ""
}

func succeeded(reason, message string) verdict { return verdict{metav1.ConditionTrue, reason, message} }
func failed(reason, message string) verdict    { return verdict{metav1.ConditionFalse, reason, message} }
func unknown(reason, message string) verdict {
	return verdict{metav1.ConditionUnknown, reason, message}
}

// flag is a condition of negative polarity, mostly with the reason of the Ready condition.
func flag(on bool, why verdict) verdict {
	if on {
		return succeeded(why.reason, why.message)
	}
	return failed(why.reason, "")
}

func setCondition(conditions *[]metav1.Condition, s *functionScope, kind string, v verdict) {
	condition := metav1.Condition{
		Type: kind, Status: v.status, Reason: v.reason, Message: truncate(v.message, maxConditionMessage),
		ObservedGeneration: s.fn.Generation, LastTransitionTime: metav1.NewTime(s.now),
	}
	meta.SetStatusCondition(conditions, condition)
}

func readyOf(fn *v1alpha1.Function) metav1.Condition {
	if c := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}
