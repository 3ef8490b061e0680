// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Resolve gives the digest of the image that ref names. Of a multi-arch index it gives the digest of the image for the
// configured architecture.
func (r *Registry) Resolve(ctx context.Context, ref string) (string, error) {
	parsed, err := r.parse(ref)
	if err != nil {
		return "", err
	}
	digest, err := r.resolve(ctx, parsed)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", ref, err)
	}
	return digest, nil
}

// Exists looks for an image and gives its digest as Resolve does. An image or repository that is missing is no error.
func (r *Registry) Exists(ctx context.Context, ref string) (digest string, ok bool, err error) {
	digest, err = r.Resolve(ctx, ref)
	switch {
	case IsNotFound(err):
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	return digest, true, nil
}

// Delete removes exactly what ref names. With a tag, the tag goes and the image stays for other tags; some registries
// cannot do that. With a digest, the image goes with all its tags. Layers go when the registry collects its garbage.
// It is no error when there is nothing to remove.
func (r *Registry) Delete(ctx context.Context, ref string) error {
	parsed, err := r.parse(ref)
	if err != nil {
		return err
	}
	if err := remote.Delete(parsed, r.options(ctx)...); err != nil && !IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", ref, err)
	}
	return nil
}

// Labels gives the labels of the image that ref names. Its configuration is bounded, as all documents of images are.
func (r *Registry) Labels(ctx context.Context, ref string) (map[string]string, error) {
	parsed, err := r.parse(ref)
	if err != nil {
		return nil, err
	}
	img, err := r.image(ctx, parsed)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", ref, err)
	}
	return config.Config.Labels, nil
}

func (r *Registry) resolve(ctx context.Context, ref name.Reference) (string, error) {
	head, err := remote.Head(ref, r.options(ctx)...)
	if err == nil && !head.MediaType.IsIndex() {
		return head.Digest.String(), nil
	}
	var answer *transport.Error
	if err != nil && (errors.As(err, &answer) || IsUnavailable(err)) {
		return "", err
	}
	// An index, or a registry that does not give the digest in the answer to HEAD.
	img, err := r.image(ctx, ref)
	if err != nil {
		return "", err
	}
	digest, err := img.Digest()
	return digest.String(), err
}

// image opens the image that ref names, through an index if need be.
func (r *Registry) image(ctx context.Context, ref name.Reference) (v1.Image, error) {
	descriptor, err := remote.Get(ref, r.options(ctx)...)
	if err != nil {
		return nil, err
	}
	return descriptor.Image()
}
