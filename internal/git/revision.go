// SPDX-License-Identifier: Apache-2.0

package git

import (
	"regexp"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/naeel/sless/internal/git/report"
)

const (
	heads   = "refs/heads/"
	tags    = "refs/tags/"
	headRef = "HEAD"
)

var (
	fullCommit  = regexp.MustCompile(`^[0-9a-fA-F]{40}$`)
	shortCommit = regexp.MustCompile(`^[0-9a-fA-F]{4,39}$`)
)

// IsCommit tells whether a revision is a commit with all its digits, which always means the same.
func IsCommit(revision string) bool { return fullCommit.MatchString(revision) }

// target is what a revision stands for.
type target struct {
	// ref is the name by which it was found, short for branches and tags, empty for a commit.
	ref string
	// object is what to ask for: a commit, or a tag that leads to one.
	object plumbing.Hash
	// commit is the commit, as far as the refs tell.
	commit plumbing.Hash
}

// resolve finds a revision among the refs that the server tells of.
func resolve(refs *packp.AdvRefs, revision string) (target, error) {
	switch {
	case revision == "" || revision == headRef:
		return defaultBranch(refs)
	case IsCommit(revision):
		return wholeCommit(refs, plumbing.NewHash(revision))
	}
	for _, candidate := range []struct{ full, short string }{
		{heads + revision, revision}, {tags + revision, revision}, {revision, shorten(revision)},
	} {
		if hash, ok := refs.References[candidate.full]; ok {
			return named(refs, candidate.full, candidate.short, hash), nil
		}
	}
	if shortCommit.MatchString(revision) {
		return abbreviated(refs, strings.ToLower(revision))
	}
	return target{}, fault(report.RevisionNotFound, "the repository has no branch or tag %q", revision)
}

func shorten(ref string) string {
	return strings.TrimPrefix(strings.TrimPrefix(ref, heads), tags)
}

func named(refs *packp.AdvRefs, full, short string, hash plumbing.Hash) target {
	commit := hash
	if peeled, ok := refs.Peeled[full]; ok {
		commit = peeled
	}
	return target{ref: short, object: hash, commit: commit}
}

func defaultBranch(refs *packp.AdvRefs) (target, error) {
	for _, link := range refs.Capabilities.Get(capability.SymRef) {
		from, to, _ := strings.Cut(link, ":")
		if hash, ok := refs.References[to]; ok && from == headRef {
			return named(refs, to, shorten(to), hash), nil
		}
	}
	if refs.Head == nil {
		return target{}, fault(report.RevisionNotFound,
			"the repository has no default branch; name a branch, tag or commit in spec.source.git.revision")
	}
	return target{ref: headRef, object: *refs.Head, commit: *refs.Head}, nil
}

// wholeCommit takes a commit that a ref leads to, or one that the server gives to whoever names it.
func wholeCommit(refs *packp.AdvRefs, commit plumbing.Hash) (target, error) {
	if slices.Contains(tips(refs), commit) || refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) {
		return target{object: commit, commit: commit}, nil
	}
	return target{}, fault(report.RevisionNotFound,
		"no branch or tag is at commit %s, and the server gives no other commits (its setting uploadpack.allowReachableSHA1InWant "+
			"is off); name a branch or tag in spec.source.git.revision", commit)
}

// abbreviated finds a commit by its first digits. A server tells of the commits that branches and tags are at, and cannot be
// asked which others begin so.
func abbreviated(refs *packp.AdvRefs, digits string) (target, error) {
	found := map[plumbing.Hash]bool{}
	for _, commit := range tips(refs) {
		if strings.HasPrefix(commit.String(), digits) {
			found[commit] = true
		}
	}
	if len(found) > 1 {
		return target{}, fault(report.RevisionNotFound, "more than one commit begins with %s; give all 40 digits", digits)
	}
	for commit := range found {
		return target{object: commit, commit: commit}, nil
	}
	return target{}, fault(report.RevisionNotFound,
		"there is no branch or tag %s, and none is at a commit that begins so; commits inside the history need all 40 digits", digits)
}

// tips are the commits that refs lead to.
func tips(refs *packp.AdvRefs) []plumbing.Hash {
	var list []plumbing.Hash
	for name, hash := range refs.References {
		if peeled, ok := refs.Peeled[name]; ok {
			hash = peeled
		}
		list = append(list, hash)
	}
	return list
}
