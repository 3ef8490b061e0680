// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// createdBy goes into the history of an image. It is part of what makes the digest.
const createdBy = "sless append"

// created is the time that images are given: the Unix epoch, because the real one would change the digest.
var created = v1.Time{Time: time.Unix(0, 0).UTC()}

// AppendRequest says what image to make.
type AppendRequest struct {
	// Base is the image to append to, by digest.
	Base string
	// Target is the repository and tag that the new image gets.
	Target string
	// Layer is what is appended.
	Layer LayerSource
	// Labels are added to those of the base.
	Labels map[string]string
}

// Append makes the image and gives its digest. Entrypoint, environment, user and all else are those of the base. Layers
// of the base are mounted when both repositories are in the same registry; otherwise they are copied through this
// program as a stream. Nothing is sent when the target is this image already. Another image under the target tag
// loses the tag.
func (r *Registry) Append(ctx context.Context, req AppendRequest) (string, error) {
	base, err := r.parseDigest(req.Base)
	if err != nil {
		return "", err
	}
	target, err := r.parseTag(req.Target)
	if err != nil {
		return "", err
	}
	baseImage, err := r.image(ctx, base)
	if err != nil {
		return "", fmt.Errorf("reading base image %s: %w", req.Base, err)
	}
	img, err := appendLayer(ctx, baseImage, req)
	if err != nil {
		return "", fmt.Errorf("appending to base image %s: %w", req.Base, err)
	}
	digest, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("appending to base image %s: %w", req.Base, err)
	}
	if err := remote.Write(target, img, r.options(ctx)...); err != nil {
		return "", fmt.Errorf("pushing %s: %w", req.Target, err)
	}
	return digest.String(), nil
}

// appendLayer gives the new image. It is pure but for reading the configuration of the base.
func appendLayer(ctx context.Context, base v1.Image, req AppendRequest) (v1.Image, error) {
	manifest, err := base.Manifest()
	if err != nil {
		return nil, err
	}
	if manifest.Config.Size > maxDocument {
		return nil, fmt.Errorf("its configuration has %d bytes", manifest.Config.Size)
	}
	if !manifest.Config.MediaType.IsConfig() {
		return nil, errors.New("it is no container image")
	}
	layer, err := newLayer(ctx, req.Layer, layerType(manifest.MediaType))
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: created, CreatedBy: createdBy},
	})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created = created
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	maps.Copy(config.Config.Labels, req.Labels)
	return mutate.ConfigFile(img, config)
}

// layerType gives the type of a gzip layer in an image of the given type: the two families are not mixed.
func layerType(manifest types.MediaType) types.MediaType {
	if manifest == types.DockerManifestSchema2 {
		return types.DockerLayer
	}
	return types.OCILayer
}
