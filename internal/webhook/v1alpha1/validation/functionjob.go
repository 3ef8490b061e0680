// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/naeel/sless/api/v1alpha1"
)

// ValidateFunctionJob returns every problem of a FunctionJob's name and spec that the schema lets through.
func ValidateFunctionJob(j *v1alpha1.FunctionJob) []Problem {
	spec := field.NewPath("spec")
	problems := validateName(j.Name)
	problems = append(problems, validateFunctionRef(j.Spec.FunctionRef, spec.Child("functionRef", "name"))...)
	return append(problems, validateEvent(j.Spec.Event, v1alpha1.MaxJobEventBytes, spec.Child("event"))...)
}
