// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/v1alpha1"
)

// JobWrapper builds a FunctionJob step by step.
type JobWrapper struct {
	fj v1alpha1.FunctionJob
}

// MakeJob starts a FunctionJob of a Function, declared and not run.
func MakeJob(name, namespace, function string) *JobWrapper {
	return &JobWrapper{fj: v1alpha1.FunctionJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "FunctionJob"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       v1alpha1.FunctionJobSpec{FunctionRef: v1alpha1.FunctionReference{Name: function}},
	}}
}

// Obj returns the FunctionJob.
func (w *JobWrapper) Obj() *v1alpha1.FunctionJob { return w.fj.DeepCopy() }

// UID sets the UID, as the API server would.
func (w *JobWrapper) UID(uid string) *JobWrapper {
	w.fj.UID = types.UID(uid)
	return w
}

// Generation sets the generation, as the API server would.
func (w *JobWrapper) Generation(generation int64) *JobWrapper {
	w.fj.Generation = generation
	return w
}

// Run asks for a run.
func (w *JobWrapper) Run(id int64) *JobWrapper {
	w.fj.Spec.RunID = id
	return w
}

// Event sets the event.
func (w *JobWrapper) Event(event string) *JobWrapper {
	w.fj.Spec.Event = &runtime.RawExtension{Raw: []byte(event)}
	return w
}

// Timeout sets the timeout of an attempt.
func (w *JobWrapper) Timeout(seconds int32) *JobWrapper {
	w.fj.Spec.TimeoutSeconds = new(seconds)
	return w
}

// Retries sets how often a failed attempt is followed by another.
func (w *JobWrapper) Retries(n int32) *JobWrapper {
	w.fj.Spec.Retries = n
	return w
}

// TTL sets how long a finished FunctionJob is kept.
func (w *JobWrapper) TTL(seconds int32) *JobWrapper {
	w.fj.Spec.TTLSecondsAfterFinished = new(seconds)
	return w
}
