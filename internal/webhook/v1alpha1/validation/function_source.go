// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"net/url"
	stdpath "path"
	"slices"
	"strings"

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
		problems = append(problems, Problem{Reason: v1alpha1.ReasonSourceInvalid,
			Err: field.Invalid(path, fmt.Sprintf("%d files", len(names)), err.Error())})
	}
	return problems
}

// validateGit refuses what git would take for something else than it is. Whether the repository exists is found out when
// it is fetched.
func validateGit(git *v1alpha1.GitSource, path *field.Path) []Problem {
	var problems []Problem
	invalid := func(child, value, detail string) {
		problems = append(problems, Problem{Reason: v1alpha1.ReasonSourceInvalid,
			Err: field.Invalid(path.Child(child), value, detail)})
	}
	if u, err := url.Parse(git.URL); err == nil && u.User != nil {
		if _, ok := u.User.Password(); ok {
			invalid("url", u.Redacted(), "may not hold a password; put it into a Secret and name it in secretName")
		}
	}
	if strings.HasPrefix(git.Revision, "-") || strings.ContainsAny(git.Revision, " \t\r\n") {
		invalid("revision", git.Revision, "must be a branch, a tag or a commit, such as main")
	}
	if p := git.Path; p != "" {
		if cleaned := stdpath.Clean(p); stdpath.IsAbs(p) || cleaned == ".." || strings.HasPrefix(cleaned, "../") {
			invalid("path", p, "must be a folder inside the repository, without a slash at the beginning and without ..")
		}
	}
	return problems
}
