// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/internal/objectstore"
)

// resolveSource reads the code, brings it into its canonical form and stores it.
func (r *FunctionReconciler) resolveSource(ctx context.Context, s *functionScope) (err error) {
	source := s.fn.Spec.Source
	if source.Git == nil {
		if err := r.removeFetches(ctx, s); err != nil {
			return err
		}
	}
	switch {
	case source.Image != nil:
		return r.useImage(ctx, s)
	case source.Upload != nil:
		s.code, err = r.uploadedCode(ctx, s)
	case source.Git != nil:
		s.code, err = r.gitCode(ctx, s)
	default:
		s.code, err = r.clusterCode(ctx, s)
	}
	if err != nil {
		return err
	}
	if err := checkEntrypoint(s); err != nil {
		return err
	}
	if s.sourceFault == nil {
		what := cmp.Or(s.sourceRevision, "the code")
		s.succeed(v1alpha1.ConditionSourceReady, cmp.Or(s.sourceNote.reason, v1alpha1.ReasonStored),
			what+" is stored as "+s.code.digest+s.sourceNote.message)
	}
	return nil
}

// clusterCode packs and stores code that is kept in the cluster.
func (r *FunctionReconciler) clusterCode(ctx context.Context, s *functionScope) (*codeArchive, error) {
	files, limits, err := r.sourceFiles(ctx, s)
	if err != nil {
		return nil, err
	}
	packed, err := archive.FromFiles(withoutSecretFiles(files, s.runtime), archive.Options{Prefix: archive.CodePrefix, Limits: limits})
	if err != nil {
		return nil, sourceFault(err)
	}
	if err := r.storeOnce(ctx, s.fn.Namespace, packed); err != nil {
		return nil, err
	}
	open := func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Data)), nil }
	return &codeArchive{
		digest: packed.Digest, open: open,
		layer: image.LayerSource{
			Digest: packed.Digest, DiffID: packed.DiffID, Size: int64(len(packed.Data)), Open: open,
		},
		file: func(name string) (string, bool) { text, ok := files[name]; return text, ok },
	}, nil
}

// sourceFiles returns the files of a source that is kept in the cluster.
func (r *FunctionReconciler) sourceFiles(ctx context.Context, s *functionScope) (map[string]string, archive.Limits, error) {
	source := s.fn.Spec.Source
	if source.Inline != nil {
		return source.Inline.Files, archive.DefaultInlineLimits, nil
	}
	files, err := r.configMapFiles(ctx, s.fn.Namespace, source.ConfigMap.Name)
	return files, archive.DefaultLimits, err
}

// configMapFiles returns the keys of a ConfigMap as files.
func (r *FunctionReconciler) configMapFiles(ctx context.Context, namespace, name string) (map[string]string, error) {
	data, err := r.readSource(ctx, namespace, resources.Source{Kind: resources.SourceConfigMap, Name: name})
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, stalled(v1alpha1.ConditionSourceReady, v1alpha1.ReasonSourceNotFound,
			"ConfigMap %s does not exist in namespace %s", name, namespace)
	}
	files := make(map[string]string, len(data))
	for key, value := range data {
		files[key] = string(value)
	}
	return files, nil
}

// checkEntrypoint looks for the entrypoint's file once the code is known, whatever source it came from. A build that sees
// the whole source may make the file.
func checkEntrypoint(s *functionScope) error {
	if s.fn.Spec.Build.Strategy == v1alpha1.BuildStrategyFull {
		return nil
	}
	has := func(name string) bool { _, ok := s.code.file(name); return ok }
	if _, _, err := s.runtime.EntrypointFile(s.entrypoint, has); err != nil {
		return stalled(v1alpha1.ConditionSourceReady, v1alpha1.ReasonEntrypointNotFound, "%s", err.Error())
	}
	return nil
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
	key, now := objectstore.CodeKey(namespace, packed.Digest), r.Clock.Now()
	if err := r.claims.claim(ctx, now, objectClaim(key)); err != nil {
		return err
	}
	if r.known.has(knownObject, key) {
		return nil
	}
	_, err := objectstore.Keep(ctx, r.Store, objectstore.Archive{
		Key: key, Content: bytes.NewReader(packed.Data), Size: int64(len(packed.Data)),
	}, r.Config.Cleanup.RefreshAfter(), now)
	if err != nil {
		return storeFault(err)
	}
	r.known.put(knownObject, key, packed.Digest)
	return nil
}

// storeFault tells a store that is away, and comes back, from one that somebody has to do something about.
func storeFault(err error) error {
	if objectstore.IsUnavailable(err) || errors.Is(err, context.Canceled) {
		return platform(v1alpha1.ConditionSourceReady, v1alpha1.ReasonStoreUnavailable,
			"the object store does not answer; it is tried again", err)
	}
	return platform(v1alpha1.ConditionSourceReady, v1alpha1.ReasonStoreRefused,
		objectstore.Explain(err).Error()+"; it is tried again", err)
}
