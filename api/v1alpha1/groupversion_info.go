// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API of sless: Function, Trigger and FunctionJob. It imports nothing but the Kubernetes API
// types, so that other programs can import it cheaply.
// +kubebuilder:object:generate=true
// +groupName=sless.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// SchemeGroupVersion is the group and version of the types in this package. Generated code refers to it by this name.
	SchemeGroupVersion = schema.GroupVersion{Group: "sless.io", Version: "v1alpha1"}

	// GroupVersion is SchemeGroupVersion under the name that hand-written code uses.
	GroupVersion = SchemeGroupVersion

	// SchemeBuilder collects the functions that add the types of this package to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
		metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
		return nil
	})

	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)
