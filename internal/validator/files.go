// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/runtimes"
)

// MaxReviewBytes is the most that the files of a review may have together. Larger code is not reviewed.
const MaxReviewBytes = 100 << 10

// suffixes are those of the files that are reviewed.
var suffixes = []string{
	".py", ".js", ".ts", ".mjs", ".cjs", ".json", ".yaml", ".yml", ".txt", ".sh", ".sql", ".go",
}

// Reviewable says whether a file is sent to the reviewer: by its suffix, and never from a folder node_modules.
func Reviewable(name string) bool {
	return slices.Contains(suffixes, strings.ToLower(path.Ext(name))) &&
		!slices.Contains(strings.Split(path.Dir(name), "/"), "node_modules")
}

// TooLargeError says that code is over MaxReviewBytes.
type TooLargeError struct {
	// Bytes is how much there is to review.
	Bytes int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the files to review have %d bytes, more than the limit of %d", e.Bytes, int64(MaxReviewBytes))
}

// Select returns the files that are reviewed, or a *TooLargeError.
func Select(files map[string]string) (map[string]string, error) {
	selected := map[string]string{}
	total := int64(0)
	for name, content := range files {
		if Reviewable(name) {
			selected[name] = content
			total += int64(len(content))
		}
	}
	if total > MaxReviewBytes {
		return nil, &TooLargeError{Bytes: total}
	}
	return selected, nil
}

// ReadArchive returns the files of a canonical archive of code that are reviewed, or a *TooLargeError. It reads r to its
// end and keeps at most MaxReviewBytes of it.
func ReadArchive(r io.Reader) (map[string]string, error) {
	contents, total, err := archive.SelectFiles(r, Reviewable, MaxReviewBytes, archive.Options{Prefix: archive.CodePrefix})
	if err != nil {
		return nil, err
	}
	if total > MaxReviewBytes {
		return nil, &TooLargeError{Bytes: total}
	}
	files := make(map[string]string, len(contents))
	for name, content := range contents {
		files[name] = string(content)
	}
	return files, nil
}

// InlineSubmission is the inline code of a Function, for an admission webhook: the controller finds the verdict about it
// later. Unacceptable files give an *archive.Error.
func InlineSubmission(fn *v1alpha1.Function, rt runtimes.Runtime) (Submission, error) {
	files := fn.Spec.Source.Inline.Files
	digest, err := InlineDigest(files, rt)
	if err != nil {
		return Submission{}, err
	}
	return Submission{
		Namespace: fn.Namespace, Name: fn.Name, Runtime: fn.Spec.Runtime, Digest: digest,
		Files: func(context.Context) (map[string]string, error) { return Select(files) },
	}, nil
}

// InlineDigest returns the digest that inline code has once it is stored, so that whoever reviews it before that, such
// as an admission webhook, and the controller keep the same verdict. Unacceptable files give an *archive.Error.
func InlineDigest(files map[string]string, rt runtimes.Runtime) (string, error) {
	kept := make(map[string]string, len(files))
	for name, content := range files {
		if !slices.Contains(rt.Dependencies.Secret, name) {
			kept[name] = content
		}
	}
	packed, err := archive.FromFiles(kept, archive.Options{Prefix: archive.CodePrefix, Limits: archive.DefaultInlineLimits})
	if err != nil {
		return "", err
	}
	return packed.Digest, nil
}
