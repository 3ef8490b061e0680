// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
)

// ScalingMode says who sets the number of a Function's replicas.
type ScalingMode int

const (
	// ScalingFixed: sless does, by spec.replicas or the default.
	ScalingFixed ScalingMode = iota
	// ScalingMissing: sless does, since the autoscaler that the Function asks for is not installed.
	ScalingMissing
	// ScalingAuto: the autoscaler does.
	ScalingAuto
)

// ScalingModeOf returns the mode of a Function. installed tells whether the autoscaler is there.
func ScalingModeOf(fn *v1alpha1.Function, installed bool) ScalingMode {
	switch {
	case fn.Spec.Scaling == nil:
		return ScalingFixed
	case !installed:
		return ScalingMissing
	default:
		return ScalingAuto
	}
}

// ScalingFacts is what the ScalingActive condition is computed from.
type ScalingFacts struct {
	Mode ScalingMode
	// Disabled is true while no trigger of the Function is enabled.
	Disabled bool
	// Away is the part of the autoscaler that does not run, or empty.
	Away string
	// ScaledObject is the live one, or nil.
	ScaledObject *unstructured.Unstructured
	// Replicas is the number of replicas that the Deployment asks for.
	Replicas int32
}

// ScalingState returns whether the autoscaler is at work, with a reason and a sentence.
func ScalingState(fn *v1alpha1.Function, facts ScalingFacts) (active bool, reason, message string) {
	switch {
	case fn.Spec.Replicas != nil:
		return false, v1alpha1.ReasonFixedReplicas, "spec.replicas sets the number of replicas"
	case facts.Mode == ScalingFixed:
		return false, v1alpha1.ReasonFixedReplicas, "spec.scaling is not set: the function runs with one replica"
	case facts.Mode == ScalingMissing:
		return false, v1alpha1.ReasonNoAutoscaler, "KEDA and its HTTP add-on are not installed in this cluster: the function " +
			"runs at minReplicas, but at least at one"
	case facts.Disabled:
		return false, v1alpha1.ReasonPaused, "no Trigger of the Function is enabled: it is held at zero replicas"
	}
	if facts.Away != "" {
		return false, v1alpha1.ReasonAutoscalerFailed, facts.Away + " has no ready pod: replicas that run go on, and at zero " +
			"nothing wakes the function"
	}
	if facts.ScaledObject == nil {
		return false, v1alpha1.ReasonPending, "the autoscaler is being set up"
	}
	if status, why := ScaledObjectReady(facts.ScaledObject); status != "True" {
		if status == "False" {
			return false, v1alpha1.ReasonAutoscalerFailed, "KEDA says: " + truncate(why)
		}
		return false, v1alpha1.ReasonPending, "KEDA has not looked at the function yet; see whether its operator runs"
	}
	return autoscaled(fn, facts.Replicas)
}

// troubleGrace is how long the autoscaler may be in trouble before a function at zero stops being ready: its parts restart, and
// calls wait for them.
const troubleGrace = 10 * time.Second

// CannotWake says why a function at zero will not be woken, going by its ScalingActive condition. While that is too young to
// tell, it returns when it will be old enough.
func CannotWake(conditions []metav1.Condition, now time.Time) (why string, in time.Duration) {
	scaling := meta.FindStatusCondition(conditions, v1alpha1.ConditionScalingActive)
	if scaling == nil || scaling.Status != metav1.ConditionFalse || scaling.Reason != v1alpha1.ReasonAutoscalerFailed {
		return "", 0
	}
	if age := now.Sub(scaling.LastTransitionTime.Time); age < troubleGrace {
		return "", troubleGrace - age
	}
	return scaling.Message, 0
}

func autoscaled(fn *v1alpha1.Function, replicas int32) (active bool, reason, message string) {
	most := ptr.Deref(fn.Spec.Scaling.MaxReplicas, v1alpha1.DefaultMaxReplicas)
	switch {
	case replicas == 0:
		return true, v1alpha1.ReasonAtZero, "the function is idle at zero replicas; the next call wakes it"
	case replicas >= most:
		return true, v1alpha1.ReasonAtMaxReplicas,
			fmt.Sprintf("the function runs at maxReplicas, %d; more calls may have to wait", most)
	default:
		return true, v1alpha1.ReasonScaling, "the autoscaler sets the number of replicas"
	}
}

// ScaledObjectReady returns the status and the message of KEDA's Ready condition, both empty when there is none.
func ScaledObjectReady(obj *unstructured.Unstructured) (status, message string) {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range conditions {
		condition, ok := item.(map[string]any)
		if !ok || condition["type"] != "Ready" {
			continue
		}
		status, _ = condition["status"].(string)
		message, _ = condition["message"].(string)
		return status, message
	}
	return "", ""
}
