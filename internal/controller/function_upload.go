// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/internal/objectstore"
)

// maxNamedFile is the largest dependency file, or file of an entrypoint, that is read from stored code.
const maxNamedFile = 8 << 20

// uploadedCode reads what the gateway has stored. Everything that is asked of stored code follows from its digest, so it
// is read once and remembered.
func (r *FunctionReconciler) uploadedCode(ctx context.Context, s *functionScope) (*codeArchive, error) {
	upload := s.fn.Spec.Source.Upload
	if upload.SHA256 == "" {
		return nil, waiting(v1alpha1.ConditionSourceReady, v1alpha1.ReasonWaitingForUpload,
			"upload a zip file to the gateway: POST /v1/namespaces/%s/functions/%s/upload", s.fn.Namespace, s.fn.Name)
	}
	if err := r.claims.claim(ctx, s.now, objectClaim(objectstore.CodeKey(s.fn.Namespace, upload.SHA256))); err != nil {
		return nil, err
	}
	code, err := r.storedCode(ctx, s, upload.SHA256)
	if err != nil {
		return nil, storedCodeFault(err)
	}
	return code, nil
}

// storedCode reads the code with the digest from the object store, or remembers it.
func (r *FunctionReconciler) storedCode(ctx context.Context, s *functionScope, digest string) (*codeArchive, error) {
	digest = strings.TrimPrefix(digest, "sha256:")
	key := objectstore.CodeKey(s.fn.Namespace, digest)
	remembered := key + " " + s.fn.Spec.Runtime + " " + s.entrypoint
	if code, ok := r.rememberedCode(remembered); ok {
		return code, nil
	}
	code, held, err := r.readStoredCode(ctx, key, digest, entrypointCandidates(s), s.runtime.DependencyFiles())
	if err == nil {
		err = leaveSecretFilesOut(ctx, code, s.runtime)
	}
	if err != nil {
		return nil, err
	}
	r.rememberCode(remembered, code, held)
	return code, nil
}

// readStoredCode reads which of the entrypoint's files and of the dependency files there are, and what is in the latter,
// which are held.
func (r *FunctionReconciler) readStoredCode(
	ctx context.Context, key, digest string, entrypoint, dependencies []string,
) (code *codeArchive, held int, err error) {
	open := func(ctx context.Context) (io.ReadCloser, error) {
		content, _, err := objectstore.OpenVerified(ctx, r.Store, key, digest, archive.DefaultLimits.ArchiveBytes())
		return content, err
	}
	info, err := r.Store.Stat(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	code = &codeArchive{digest: "sha256:" + digest, open: open}
	code.layer = image.LayerSource{Digest: code.digest, Size: info.Size, Open: open}
	files := map[string][]byte{}
	err = read(ctx, open, func(content io.Reader) (err error) {
		names := slices.Concat(entrypoint, dependencies)
		files, code.layer.DiffID, err = archive.ReadFiles(content, names, maxNamedFile, archive.Options{Prefix: archive.CodePrefix})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	for name := range files {
		if !slices.Contains(dependencies, name) {
			files[name] = nil // nobody asks for more than whether it is there
		}
		held += len(files[name])
	}
	code.file = func(name string) (string, bool) { data, ok := files[name]; return string(data), ok }
	return code, held, nil
}

func read(
	ctx context.Context, open func(context.Context) (io.ReadCloser, error), use func(io.Reader) error,
) (err error) {
	content, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return use(content)
}

// entrypointCandidates returns the files that the entrypoint may stand for.
func entrypointCandidates(s *functionScope) []string {
	var names []string
	_, _, _ = s.runtime.EntrypointFile(s.entrypoint, func(name string) bool {
		names = append(names, name)
		return false
	})
	return names
}

func storedCodeFault(err error) error {
	_, damaged := errors.AsType[*archive.DigestError](err)
	_, refused := errors.AsType[*archive.Error](err)
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return unwatched(v1alpha1.ConditionSourceReady, v1alpha1.ReasonSourceNotFound,
			"the uploaded code is not in the object store; upload it again")
	case damaged, refused:
		return stalled(v1alpha1.ConditionSourceReady, v1alpha1.ReasonSourceInvalid,
			"the stored code is not usable, upload it again: %s", err.Error())
	default:
		return storeFault(err)
	}
}
