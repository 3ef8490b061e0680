// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"context"
	"errors"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/objectstore"
)

// codePrefix is the folder of the code in the archive, and so in the image.
const codePrefix = "app/"

// resolveSource reads the code, brings it into its canonical form and stores it.
func (r *FunctionReconciler) resolveSource(ctx context.Context, s *functionScope) error {
	source := s.fn.Spec.Source
	switch {
	case source.Inline != nil:
		code, err := inlineCode(source.Inline.Files)
		if err != nil {
			return err
		}
		s.code = code
	case source.Upload != nil && source.Upload.SHA256 == "":
		return waiting(v1alpha1.ConditionSourceReady, v1alpha1.ReasonWaitingForUpload,
			"upload a zip file to the gateway: POST /v1/namespaces/%s/functions/%s/upload", s.fn.Namespace, s.fn.Name)
	default:
		return stalled(v1alpha1.ConditionSourceReady, v1alpha1.ReasonSourceUnsupported,
			"this version of sless builds from spec.source.inline only")
	}
	if err := r.storeOnce(ctx, s.fn.Namespace, s.code.Archive); err != nil {
		return err
	}
	s.succeed(v1alpha1.ConditionSourceReady, v1alpha1.ReasonStored, "the code is stored as "+s.code.Digest)
	return nil
}

func inlineCode(files map[string]string) (*codeArchive, error) {
	packed, err := archive.FromFiles(files, archive.Options{Prefix: codePrefix, Limits: archive.DefaultInlineLimits})
	if err != nil {
		return nil, sourceFault(err)
	}
	file := func(name string) (string, bool) { text, ok := files[name]; return text, ok }
	return &codeArchive{Archive: packed, file: file}, nil
}

func sourceFault(err error) error {
	if problem, ok := errors.AsType[*archive.Error](err); ok {
		return stalled(v1alpha1.ConditionSourceReady, v1alpha1.ReasonSourceInvalid, "%s", problem.Error())
	}
	return platform(v1alpha1.ConditionSourceReady, v1alpha1.ReasonInternalError, "the code could not be packed", err)
}

// storeOnce puts an archive into the object store unless it is there. The key is the content's digest, so that an object
// that exists is the right one.
func (r *FunctionReconciler) storeOnce(ctx context.Context, namespace string, packed *archive.Archive) error {
	key := objectstore.CodeKey(namespace, packed.Digest)
	if r.known.has(knownObject, key) {
		return nil
	}
	_, err := r.Store.Stat(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		err = r.Store.Put(ctx, key, bytes.NewReader(packed.Data), int64(len(packed.Data)), nil)
	}
	if err != nil {
		return platform(v1alpha1.ConditionSourceReady, v1alpha1.ReasonStoreUnavailable,
			"the object store does not answer; it is tried again", err)
	}
	r.known.put(knownObject, key, packed.Digest)
	return nil
}

// reviewCode is where a review of the code decides. Without one configured, all code passes.
func (r *FunctionReconciler) reviewCode(_ context.Context, s *functionScope) error {
	s.succeed(v1alpha1.ConditionCodeReviewed, v1alpha1.ReasonReviewOff, "no review is configured")
	return nil
}
