// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/v1alpha1"
)

// FunctionJobWrapper builds a FunctionJob step by step.
type FunctionJobWrapper struct {
	fj v1alpha1.FunctionJob
}

// MakeFunctionJob starts a FunctionJob of a Function, declared and not run.
func MakeFunctionJob(name, namespace, function string) *FunctionJobWrapper {
	return &FunctionJobWrapper{fj: v1alpha1.FunctionJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "FunctionJob"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       v1alpha1.FunctionJobSpec{FunctionRef: v1alpha1.FunctionReference{Name: function}},
	}}
}

// Obj returns the FunctionJob.
func (w *FunctionJobWrapper) Obj() *v1alpha1.FunctionJob { return w.fj.DeepCopy() }

// UID sets the UID, as the API server would.
func (w *FunctionJobWrapper) UID(uid string) *FunctionJobWrapper {
	w.fj.UID = types.UID(uid)
	return w
}

// Generation sets the generation, as the API server would.
func (w *FunctionJobWrapper) Generation(generation int64) *FunctionJobWrapper {
	w.fj.Generation = generation
	return w
}

// Run asks for a run.
func (w *FunctionJobWrapper) Run(id int64) *FunctionJobWrapper {
	w.fj.Spec.RunID = id
	return w
}

// Event sets the event.
func (w *FunctionJobWrapper) Event(event string) *FunctionJobWrapper {
	w.fj.Spec.Event = &runtime.RawExtension{Raw: []byte(event)}
	return w
}

// Timeout sets the timeout of an attempt.
func (w *FunctionJobWrapper) Timeout(seconds int32) *FunctionJobWrapper {
	w.fj.Spec.TimeoutSeconds = new(seconds)
	return w
}

// Retries sets how often a failed attempt is followed by another.
func (w *FunctionJobWrapper) Retries(n int32) *FunctionJobWrapper {
	w.fj.Spec.Retries = n
	return w
}

// TTL sets how long a finished FunctionJob is kept.
func (w *FunctionJobWrapper) TTL(seconds int32) *FunctionJobWrapper {
	w.fj.Spec.TTLSecondsAfterFinished = new(seconds)
	return w
}
