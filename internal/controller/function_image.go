// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/runtimes"
)

// ensureImage lays the code over the runtime or dependency image. The tag is a hash of both, so that code that was built
// before is found, not built.
func (r *FunctionReconciler) ensureImage(ctx context.Context, s *functionScope) error {
	if s.image != "" {
		return nil
	}
	repository := naming.CodeRepository(r.Config.Registry.Host, s.fn.Namespace, s.fn.Name)
	target := repository + ":" + naming.Key(s.fn.Namespace, s.buildBase, s.code.digest)
	if err := r.claims.claim(ctx, s.now, imageClaim(target)); err != nil {
		return err
	}
	digest, ok := r.knownImage(s, target)
	if !ok {
		var err error
		if digest, err = r.Images.Append(ctx, appendRequest(s, target)); err != nil {
			return appendFault(s, err)
		}
		r.known.put(knownImage, target, digest)
	}
	s.image = repository + "@" + digest
	s.succeed(v1alpha1.ConditionBuilt, v1alpha1.ReasonSucceeded, "the image is "+s.image)
	return nil
}

// useImage takes a ready image. Its tag is looked up, so that pods run a digest.
func (r *FunctionReconciler) useImage(ctx context.Context, s *functionScope) error {
	ref, err := name.ParseReference(s.fn.Spec.Source.Image.Ref)
	if err != nil {
		return stalled(v1alpha1.ConditionSourceReady, v1alpha1.ReasonSourceInvalid, "spec.source.image.ref: %s", err.Error())
	}
	if err := r.claims.claim(ctx, s.now, imageClaim(ref.String())); err != nil {
		return err
	}
	remembered := s.fn.Namespace + " " + ref.String()
	digest, ok := r.known.get(knownBase, remembered)
	if !ok {
		digest, err = r.Images.Resolve(ctx, ref.String())
		if image.IsUnavailable(err) {
			return platform(v1alpha1.ConditionSourceReady, v1alpha1.ReasonRegistryUnavailable,
				"the registry of "+ref.String()+" does not answer; it is tried again", err)
		}
		if err != nil && r.platformRepository(ref.Context()) {
			return notForThisNamespace(ref)
		}
		if image.IsNotFound(err) || image.IsRefused(err) {
			return unwatched(v1alpha1.ConditionSourceReady, v1alpha1.ReasonSourceNotFound,
				"the image %s cannot be read: %s", ref.String(), err.Error())
		}
		if err != nil {
			return platform(v1alpha1.ConditionSourceReady, v1alpha1.ReasonSourceNotFound,
				"the image "+ref.String()+" cannot be read: "+image.Explain(err).Error(), err)
		}
		if err := r.checkOwner(ctx, s, ref, digest); err != nil {
			return err
		}
		r.known.put(knownBase, remembered, digest)
	}
	s.image = ref.Context().Name() + "@" + digest
	s.succeed(v1alpha1.ConditionSourceReady, v1alpha1.ReasonImageGiven, "spec.source.image is used as it is")
	s.succeed(v1alpha1.ConditionBuilt, v1alpha1.ReasonImageGiven, "the image is "+s.image)
	return nil
}

// checkOwner refuses an image that sless built for another namespace: code of one tenant must not be run by another. The
// name of a repository does not tell whose it is, since namespaces and names may hold dashes; the label of the image does.
func (r *FunctionReconciler) checkOwner(ctx context.Context, s *functionScope, ref name.Reference, digest string) error {
	if !r.platformRepository(ref.Context()) {
		return nil
	}
	labels, err := r.Images.Labels(ctx, ref.Context().Name()+"@"+digest)
	if image.IsUnavailable(err) {
		return imageFault("the image "+ref.String()+" cannot be read", err)
	}
	if err != nil || labels[v1alpha1.LabelNamespace] != s.fn.Namespace {
		return notForThisNamespace(ref)
	}
	return nil
}

// notForThisNamespace says the same of an image that does not exist and of another namespace's, so that nobody learns what
// others have.
func notForThisNamespace(ref name.Reference) error {
	return unwatched(v1alpha1.ConditionSourceReady, v1alpha1.ReasonSourceNotFound,
		"sless has built no image %s for this namespace", ref.String())
}

// platformRepository tells whether sless fills a repository. Runtime images are everybody's.
func (r *FunctionReconciler) platformRepository(repository name.Repository) bool {
	for _, known := range r.Catalogue.Names() {
		rt, _ := r.Catalogue.Lookup(known)
		if runtimeRepository, err := name.NewRepository(r.Config.Registry.RuntimeHost + "/" + rt.Image); err == nil &&
			runtimeRepository.Name() == repository.Name() {
			return false
		}
	}
	// Parsing brings both names into the same form; docker.io has more than one.
	made, err := name.NewRepository(r.Config.Registry.Host + "/" + naming.RepositoryPrefix + "x")
	if err != nil {
		return true
	}
	// Names of hosts have no case, and may end in a dot.
	host := func(r name.Repository) string { return strings.TrimSuffix(strings.ToLower(r.RegistryStr()), ".") }
	return host(repository) == host(made) &&
		strings.HasPrefix(repository.RepositoryStr(), strings.TrimSuffix(made.RepositoryStr(), "x"))
}

// knownImage returns the digest of an image that was seen in the registry a short while ago. While pods cannot pull, what
// was seen is not believed: an image that was lost is made again.
func (r *FunctionReconciler) knownImage(s *functionScope, target string) (string, bool) {
	if fault := plan.PodFault(s.pods, wantedRevision(s.deployment)); fault != nil &&
		fault.Reason == v1alpha1.ReasonImagePullFailed {
		return "", false
	}
	return r.known.get(knownImage, target)
}

func appendRequest(s *functionScope, target string) image.AppendRequest {
	return image.AppendRequest{
		Base:   s.buildBase,
		Target: target,
		Layer:  s.code.layer,
		Labels: map[string]string{
			v1alpha1.LabelSourceDigest: s.code.digest, v1alpha1.LabelNamespace: s.fn.Namespace,
		},
	}
}

// runtimeImage returns the runtime's image by digest.
func (r *FunctionReconciler) runtimeImage(ctx context.Context, rt runtimes.Runtime) (string, error) {
	repository := r.Config.Registry.RuntimeHost + "/" + rt.Image
	ref := repository + ":" + rt.Version
	digest, ok := r.known.get(knownBase, ref)
	if !ok {
		var err error
		if digest, err = r.Images.Resolve(ctx, ref); err != nil {
			return "", imageFault(fmt.Sprintf("the runtime image %s cannot be read", ref), err)
		}
		r.known.put(knownBase, ref, digest)
	}
	return repository + "@" + digest, nil
}

// appendFault tells a store from which the code could not be read from a registry that did not take it.
func appendFault(s *functionScope, err error) error {
	if layer, ok := errors.AsType[*image.LayerError](err); ok && objectstore.IsUnavailable(layer.Err) {
		delete(s.done, v1alpha1.ConditionSourceReady)
		return storeFault(layer.Err)
	}
	return imageFault("the code could not be added to the image", err)
}

func imageFault(message string, err error) error {
	switch {
	case image.IsUnavailable(err):
		return platform(v1alpha1.ConditionBuilt, v1alpha1.ReasonRegistryUnavailable,
			message+": the registry does not answer; it is tried again", err)
	case image.IsNotFound(err):
		return platform(v1alpha1.ConditionBuilt, v1alpha1.ReasonImageMissing, message+": "+err.Error(), err)
	default:
		return platform(v1alpha1.ConditionBuilt, v1alpha1.ReasonRegistryRefused, message+": "+image.Explain(err).Error(), err)
	}
}
