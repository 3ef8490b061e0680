// SPDX-License-Identifier: Apache-2.0

// Package testutil builds the objects that tests need, in few words.
package testutil

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/v1alpha1"
)

// FunctionWrapper builds a Function step by step.
type FunctionWrapper struct {
	fn v1alpha1.Function
}

// MakeFunction starts a Function for python3.11, without a source.
func MakeFunction(name, namespace string) *FunctionWrapper {
	return &FunctionWrapper{fn: v1alpha1.Function{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Function"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       v1alpha1.FunctionSpec{Runtime: "python3.11"},
	}}
}

// Obj returns the Function.
func (w *FunctionWrapper) Obj() *v1alpha1.Function { return w.fn.DeepCopy() }

// UID sets the UID, as the API server would.
func (w *FunctionWrapper) UID(uid string) *FunctionWrapper {
	w.fn.UID = types.UID(uid)
	return w
}

// Generation sets the generation, as the API server would.
func (w *FunctionWrapper) Generation(generation int64) *FunctionWrapper {
	w.fn.Generation = generation
	return w
}

// Runtime sets the runtime.
func (w *FunctionWrapper) Runtime(name string) *FunctionWrapper {
	w.fn.Spec.Runtime = name
	return w
}

// Entrypoint sets the entrypoint.
func (w *FunctionWrapper) Entrypoint(entrypoint string) *FunctionWrapper {
	w.fn.Spec.Entrypoint = entrypoint
	return w
}

// File adds a file of inline source.
func (w *FunctionWrapper) File(name, text string) *FunctionWrapper {
	if w.fn.Spec.Source.Inline == nil {
		w.fn.Spec.Source.Inline = &v1alpha1.InlineSource{Files: map[string]string{}}
	}
	w.fn.Spec.Source.Inline.Files[name] = text
	return w
}

// Env adds an environment variable.
func (w *FunctionWrapper) Env(name, value string) *FunctionWrapper {
	w.fn.Spec.Env = append(w.fn.Spec.Env, corev1.EnvVar{Name: name, Value: value})
	return w
}

// Resources sets the resources.
func (w *FunctionWrapper) Resources(requests, limits corev1.ResourceList) *FunctionWrapper {
	w.fn.Spec.Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
	return w
}

// Replicas sets a fixed number of replicas.
func (w *FunctionWrapper) Replicas(n int32) *FunctionWrapper {
	w.fn.Spec.Replicas = new(n)
	return w
}

// Scaling sets the bounds of automatic scaling.
func (w *FunctionWrapper) Scaling(minimum, maximum int32) *FunctionWrapper {
	w.fn.Spec.Scaling = &v1alpha1.FunctionScaling{MinReplicas: new(minimum), MaxReplicas: new(maximum)}
	return w
}

// Timeout sets the timeout of a call.
func (w *FunctionWrapper) Timeout(seconds int32) *FunctionWrapper {
	w.fn.Spec.TimeoutSeconds = seconds
	return w
}

// Concurrency sets the calls in flight per replica.
func (w *FunctionWrapper) Concurrency(n int32) *FunctionWrapper {
	w.fn.Spec.Concurrency = n
	return w
}

// Annotation sets an annotation.
func (w *FunctionWrapper) Annotation(key, value string) *FunctionWrapper {
	metav1.SetMetaDataAnnotation(&w.fn.ObjectMeta, key, value)
	return w
}

// Git makes a git repository the source.
func (w *FunctionWrapper) Git(url string) *FunctionWrapper {
	w.fn.Spec.Source = v1alpha1.FunctionSource{Git: &v1alpha1.GitSource{URL: url}}
	return w
}
