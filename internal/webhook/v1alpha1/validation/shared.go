// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/naeel/sless/api/v1alpha1"
)

func invalidSpec(err *field.Error) Problem {
	return Problem{Reason: v1alpha1.ReasonInvalidSpec, Err: err}
}

// listIndex is the number of an item in the path of a field.
var listIndex = regexp.MustCompile(`\[\d+\]`)

// Introduced parts the problems of a changed object from those that it had before the change. An item of a list is the same
// one when another item went away before it.
func Introduced(before, after []Problem) (introduced, kept []Problem) {
	what := func(p Problem) string {
		return listIndex.ReplaceAllString(p.Err.Field, "[]") + ": " + p.Err.ErrorBody()
	}
	known := map[string]int{}
	for _, p := range before {
		known[what(p)]++
	}
	for _, p := range after {
		if known[what(p)] > 0 {
			known[what(p)]--
			kept = append(kept, p)
		} else {
			introduced = append(introduced, p)
		}
	}
	return introduced, kept
}

var (
	label        = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	functionName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
)

// validateName checks the name of a Trigger or a FunctionJob, from which those of a CronJob, a Job and pods are derived.
func validateName(name string) []Problem {
	path := field.NewPath("metadata", "name")
	var problems []Problem
	if len(name) > v1alpha1.MaxNameLength {
		problems = append(problems, invalidSpec(field.Invalid(path, name, fmt.Sprintf(
			"may have %d characters, so that the names derived from it fit Kubernetes' 63", v1alpha1.MaxNameLength))))
	}
	if !label.MatchString(name) {
		problems = append(problems, invalidSpec(field.Invalid(path, name,
			"must consist of lower-case letters, digits and '-', and begin and end with a letter or digit")))
	}
	return problems
}

// validateFunctionRef refuses a name that no Function can have, now or later.
func validateFunctionRef(ref v1alpha1.FunctionReference, path *field.Path) []Problem {
	if len(ref.Name) <= v1alpha1.MaxNameLength && functionName.MatchString(ref.Name) {
		return nil
	}
	return []Problem{invalidSpec(field.Invalid(path, ref.Name,
		"no Function can have this name; give the name of a Function in the same namespace, such as hello"))}
}

// validateEvent checks an event that another way than the API server may have let in, and its size.
func validateEvent(event *runtime.RawExtension, limit int, path *field.Path) []Problem {
	if event == nil || len(event.Raw) == 0 {
		return nil
	}
	if len(event.Raw) > limit {
		return []Problem{{Reason: v1alpha1.ReasonEventTooLarge, Err: field.Invalid(path, fmt.Sprintf("%d bytes", len(event.Raw)),
			fmt.Sprintf("may hold %d bytes of JSON; store more elsewhere and pass where it is", limit))}}
	}
	if !json.Valid(event.Raw) {
		return []Problem{{Reason: v1alpha1.ReasonEventInvalid, Err: field.Invalid(path, "<bytes>", "is not JSON")}}
	}
	return nil
}
