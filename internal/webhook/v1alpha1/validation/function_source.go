// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
)

// validateSource checks as much of the source as the Function itself tells.
func validateSource(source v1alpha1.FunctionSource, path *field.Path) []Problem {
	switch {
	case source.Inline != nil:
		return validateInline(source.Inline, path.Child("inline", "files"))
	case source.Git != nil:
		return validateGit(source.Git, path.Child("git"))
	case source.Image != nil:
		if _, err := name.ParseReference(source.Image.Ref); err != nil {
			return []Problem{{Reason: v1alpha1.ReasonSourceInvalid, Err: field.Invalid(path.Child("image", "ref"),
				source.Image.Ref, "must be the reference of an image, such as registry.example.com/team/image:v1")}}
		}
	}
	return nil
}

func validateInline(inline *v1alpha1.InlineSource, path *field.Path) []Problem {
	total := 0
	for file, text := range inline.Files {
		total += len(file) + len(text)
	}
	var problems []Problem
	if total > v1alpha1.MaxInlineSourceBytes {
		problems = append(problems, Problem{
			Reason: v1alpha1.ReasonSourceTooLarge,
			Err: field.Invalid(path, fmt.Sprintf("%d bytes", total), fmt.Sprintf(
				"inline source may hold %d bytes; upload the code as a zip file instead", v1alpha1.MaxInlineSourceBytes)),
		})
	}
	names := slices.Collect(maps.Keys(inline.Files))
	if err := archive.CheckPaths(names, archive.DefaultInlineLimits); err != nil {
		// Without a value, which would be all the code.
		problems = append(problems, Problem{
			Reason: v1alpha1.ReasonSourceInvalid, Err: field.Invalid(path, field.OmitValueType{}, err.Error()),
		})
	}
	return problems
}
