// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/naeel/sless/api/v1alpha1"
)

// TriggerWrapper builds a Trigger step by step.
type TriggerWrapper struct {
	trigger v1alpha1.Trigger
}

// MakeTrigger starts a Trigger of type http.
func MakeTrigger(name, namespace, function string) *TriggerWrapper {
	return &TriggerWrapper{trigger: v1alpha1.Trigger{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Trigger"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.TriggerSpec{
			FunctionRef: v1alpha1.FunctionReference{Name: function}, Type: v1alpha1.TriggerTypeHTTP,
		},
	}}
}

// Obj returns the Trigger.
func (w *TriggerWrapper) Obj() *v1alpha1.Trigger { return w.trigger.DeepCopy() }

// Host sets the host of an http trigger.
func (w *TriggerWrapper) Host(host string) *TriggerWrapper {
	w.trigger.Spec.HTTP = &v1alpha1.HTTPTrigger{Host: host}
	return w
}

// Cron makes it a cron trigger. No time zone is the default one.
func (w *TriggerWrapper) Cron(schedule, timeZone string) *TriggerWrapper {
	w.trigger.Spec.Type = v1alpha1.TriggerTypeCron
	w.trigger.Spec.Cron = &v1alpha1.CronTrigger{Schedule: schedule, TimeZone: timeZone}
	return w
}

// Event sets the JSON event of a cron trigger.
func (w *TriggerWrapper) Event(event string) *TriggerWrapper {
	w.trigger.Spec.Cron.Event = &runtime.RawExtension{Raw: []byte(event)}
	return w
}
