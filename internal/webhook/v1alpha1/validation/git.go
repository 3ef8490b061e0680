// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/naeel/sless/api/v1alpha1"
)

// validateGit checks what a repository is called. Whether it is there only a fetch can tell.
func validateGit(source *v1alpha1.GitSource, path *field.Path) []Problem {
	var problems []Problem
	invalid := func(name, value, detail string) {
		problems = append(problems, Problem{
			Reason: v1alpha1.ReasonSourceInvalid, Err: field.Invalid(path.Child(name), value, detail),
		})
	}
	if detail := gitURLProblem(source.URL); detail != "" {
		// The address is not repeated: it may hold a password.
		invalid("url", "", detail)
	}
	if strings.ContainsFunc(source.Revision, notInRevision) || strings.Contains(source.Revision, "..") ||
		strings.HasPrefix(source.Revision, "-") {
		invalid("revision", source.Revision, "must be the name of a branch or tag, or a commit; expressions such as HEAD~1 are not known")
	}
	if slices.Contains(strings.Split(source.Path, "/"), "..") || strings.HasPrefix(source.Path, "/") ||
		strings.ContainsAny(source.Path, "\\\x00") {
		invalid("path", source.Path, "must be a folder inside the repository, such as functions/cart, without ..")
	}
	return problems
}

// notInRevision tells the characters that git allows in no name.
func notInRevision(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }

// gitURLProblem says what is wrong with an address, or nothing.
func gitURLProblem(address string) string {
	if !strings.Contains(address, "://") {
		if _, path, ok := strings.Cut(address, ":"); !ok || path == "" {
			return "must be user@host:path, or begin with https://, http:// or ssh://"
		}
		return ""
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" {
		return "is no address with a host"
	}
	_, password := parsed.User.Password()
	if password || (parsed.User != nil && parsed.Scheme != "ssh") {
		return "must hold no user or password; put them into a Secret and name it in secretName"
	}
	if parsed.RawQuery != "" || parsed.Fragment != "" {
		return "must end with the path of the repository; name the branch in revision"
	}
	return ""
}
