// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
)

// computeTriggerStatus returns the status of a Trigger. fn is nil when the Function does not exist.
func computeTriggerStatus(
	trigger *v1alpha1.Trigger, fn *v1alpha1.Function, gateway config.Gateway, now time.Time,
) v1alpha1.TriggerStatus {
	status := *trigger.Status.DeepCopy()
	status.ObservedGeneration = trigger.Generation
	status.URL = ""
	ready := triggerVerdict(trigger, fn)
	if trigger.Spec.Type == v1alpha1.TriggerTypeHTTP && fn != nil {
		status.URL = functionURL(fn, gateway)
	}
	status.Active = new(ready.status == metav1.ConditionTrue)
	waits := ready.reason == v1alpha1.ReasonPending && !meta.IsStatusConditionTrue(fn.Status.Conditions, v1alpha1.ConditionStalled)
	for _, c := range []struct {
		kind string
		verdict
	}{
		{v1alpha1.ConditionReady, ready},
		{v1alpha1.ConditionReconciling, flag(waits, ready)},
		{v1alpha1.ConditionStalled, flag(ready.status == metav1.ConditionFalse, ready)},
	} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: c.kind, Status: c.status, Reason: c.reason, Message: c.message,
			ObservedGeneration: trigger.Generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	return status
}

func triggerVerdict(trigger *v1alpha1.Trigger, fn *v1alpha1.Function) verdict {
	spec := trigger.Spec
	switch {
	case spec.Type == v1alpha1.TriggerTypeCron:
		return failed(v1alpha1.ReasonNotImplemented, "this version does not run triggers of type cron")
	case spec.HTTP != nil && (spec.HTTP.Host != "" || len(spec.HTTP.Methods) > 0):
		return failed(v1alpha1.ReasonNotImplemented, "this version does not support spec.http.host and spec.http.methods")
	case !ptr.Deref(spec.Enabled, true):
		return failed(v1alpha1.ReasonNotImplemented, "this version does not support spec.enabled: false")
	case fn == nil:
		return failed(v1alpha1.ReasonFunctionNotFound, fmt.Sprintf("Function %s does not exist in this namespace", spec.FunctionRef.Name))
	}
	if ready := readyOf(fn); ready.Status != metav1.ConditionTrue {
		message := fmt.Sprintf("Function %s is not ready: %s", fn.Name, ready.Reason)
		if meta.IsStatusConditionTrue(fn.Status.Conditions, v1alpha1.ConditionStalled) {
			return failed(v1alpha1.ReasonPending, message)
		}
		return unknown(v1alpha1.ReasonPending, message)
	}
	return succeeded(v1alpha1.ReasonReady, "the function answers at status.url")
}
