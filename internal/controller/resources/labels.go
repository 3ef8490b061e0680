// SPDX-License-Identifier: Apache-2.0

// Package resources builds the Kubernetes objects that sless makes. The builders are pure: values in, an object out, no
// client and no clock. Each is pinned by a golden file.
package resources

import (
	"github.com/naeel/sless/api/v1alpha1"
)

// componentLabel tells the kinds of objects of one Function apart.
const componentLabel = "app.kubernetes.io/component"

// Components.
const (
	ComponentFunction = "function"
	ComponentBuild    = "build"
	ComponentScaling  = "scaling"
)

// ComponentLabels select the objects of one kind, of whatever Function.
func ComponentLabels(component string) map[string]string {
	return map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless, componentLabel: component}
}

// OwnerLabels are the labels of everything that is made for a Function.
func OwnerLabels(fn *v1alpha1.Function, component string) map[string]string {
	return map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless,
		v1alpha1.LabelFunction:  fn.Name,
		v1alpha1.LabelOwnerUID:  string(fn.UID),
		componentLabel:          component,
	}
}

// SelectorLabels select the pods of a Function's Deployment, of whatever version.
func SelectorLabels(fn *v1alpha1.Function) map[string]string {
	return map[string]string{
		v1alpha1.LabelOwnerUID: string(fn.UID),
		componentLabel:         ComponentFunction,
	}
}

// OwnerAnnotations lead from an object back to its Function, whose namespace is another.
func OwnerAnnotations(fn *v1alpha1.Function) map[string]string {
	return map[string]string{v1alpha1.AnnotationOwner: fn.Namespace + "/" + fn.Name}
}
