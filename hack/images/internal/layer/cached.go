// SPDX-License-Identifier: Apache-2.0

package layer

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Cached is a layer that lies in a file, with its digests beside it, so that using it again hashes nothing. It is a
// v1.Layer.
type Cached struct {
	path string
	meta meta
}

type meta struct {
	Digest v1.Hash `json:"digest"` // of the gzip stream
	DiffID v1.Hash `json:"diffID"` // of the tar stream
	Size   int64   `json:"size"`   // of the gzip stream, in bytes
}

var _ v1.Layer = (*Cached)(nil)

// Get returns the layer kept at path, or makes the tree, writes it there and returns that. A layer that is used gets
// the time of use, so that those nobody uses can be told.
func Get(path string, tree func() (Tree, error)) (layer *Cached, made bool, err error) {
	layer, err = open(path)
	if err == nil {
		return layer, false, os.Chtimes(path, time.Time{}, time.Now())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	t, err := tree()
	if err != nil {
		return nil, false, err
	}
	layer, err = write(path, t)
	return layer, true, err
}

func open(path string) (*Cached, error) {
	data, err := os.ReadFile(path + ".json")
	if err != nil {
		return nil, err
	}
	layer := &Cached{path: path}
	if err := json.Unmarshal(data, &layer.meta); err != nil {
		return nil, fs.ErrNotExist // cut off while it was written
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() != layer.meta.Size {
		return nil, fs.ErrNotExist
	}
	return layer, nil
}

// write writes the layer first and what is known about it last, so that a run that was cut off leaves nothing that
// open would take.
func write(path string, tree Tree) (*Cached, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".layer-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	m, err := compress(tmp, tree)
	if err := errors.Join(err, tmp.Close()); err != nil {
		return nil, fmt.Errorf("writing layer %s: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return nil, err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return &Cached{path: path, meta: m}, os.WriteFile(path+".json", data, 0o644)
}

func compress(w io.Writer, tree Tree) (meta, error) {
	digest, diffID := sha256.New(), sha256.New()
	size := &counter{}
	// The fastest level: the layers go over the loopback device, and two cores have other things to do.
	zw, err := gzip.NewWriterLevel(io.MultiWriter(w, digest, size), gzip.BestSpeed)
	if err != nil {
		return meta{}, err
	}
	if err := errors.Join(tree.WriteTar(io.MultiWriter(zw, diffID)), zw.Close()); err != nil {
		return meta{}, err
	}
	return meta{Digest: sum(digest), DiffID: sum(diffID), Size: size.n}, nil
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// Tree reads the layer back.
func (c *Cached) Tree() (Tree, error) {
	r, err := c.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return ReadTar(r)
}

// Digest returns the digest of the gzip stream.
func (c *Cached) Digest() (v1.Hash, error) { return c.meta.Digest, nil }

// DiffID returns the digest of the tar stream.
func (c *Cached) DiffID() (v1.Hash, error) { return c.meta.DiffID, nil }

// Size returns the length of the gzip stream in bytes.
func (c *Cached) Size() (int64, error) { return c.meta.Size, nil }

// MediaType says that the layer is an OCI layer.
func (c *Cached) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// Compressed opens the gzip stream.
func (c *Cached) Compressed() (io.ReadCloser, error) { return os.Open(c.path) }

// Uncompressed opens the tar stream.
func (c *Cached) Uncompressed() (io.ReadCloser, error) {
	f, err := os.Open(c.path)
	if err != nil {
		return nil, err
	}
	zr, err := gzip.NewReader(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{zr, f}, nil
}
