// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/naeel/sless/internal/archive"
)

// LayerSource is a layer that is kept outside the registry, as a gzip stream.
type LayerSource struct {
	// Digest is the digest of the gzip stream, DiffID that of the tar inside.
	Digest, DiffID string
	// Size is the length of the gzip stream in bytes.
	Size int64
	// Open opens the gzip stream. It is called only when the registry lacks the layer, and again when an upload is tried
	// again. The content is checked against Digest while it is sent.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// sourceLayer is a LayerSource as the library wants it.
type sourceLayer struct {
	ctx       context.Context // the interface of the library passes none
	source    LayerSource
	digest    v1.Hash
	diffID    v1.Hash
	mediaType types.MediaType
}

func newLayer(ctx context.Context, source LayerSource, mediaType types.MediaType) (v1.Layer, error) {
	digest, err := parseHash(source.Digest)
	if err != nil {
		return nil, err
	}
	diffID, err := parseHash(source.DiffID)
	if err != nil {
		return nil, err
	}
	return partial.CompressedToLayer(&sourceLayer{
		ctx: ctx, source: source, digest: digest, diffID: diffID, mediaType: mediaType,
	})
}

func parseHash(digest string) (v1.Hash, error) {
	if _, err := archive.ParseDigest(digest); err != nil {
		return v1.Hash{}, fmt.Errorf("layer: %w", err)
	}
	return v1.NewHash(digest)
}

func (l *sourceLayer) Digest() (v1.Hash, error)            { return l.digest, nil }
func (l *sourceLayer) DiffID() (v1.Hash, error)            { return l.diffID, nil }
func (l *sourceLayer) Size() (int64, error)                { return l.source.Size, nil }
func (l *sourceLayer) MediaType() (types.MediaType, error) { return l.mediaType, nil }

func (l *sourceLayer) Compressed() (io.ReadCloser, error) {
	content, err := l.source.Open(l.ctx)
	if err != nil {
		return nil, &LayerError{Digest: l.source.Digest, Err: err}
	}
	verified, err := archive.Verify(content, l.source.Digest, l.source.Size)
	if err != nil {
		return nil, &LayerError{Digest: l.source.Digest, Err: errors.Join(err, content.Close())}
	}
	return &layerReader{ReadCloser: verified, digest: l.source.Digest}, nil
}

// layerReader marks the errors of a layer, which the HTTP client would otherwise give as its own.
type layerReader struct {
	io.ReadCloser

	digest string
}

func (r *layerReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &LayerError{Digest: r.digest, Err: err}
	}
	return n, err
}
