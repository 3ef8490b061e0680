// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// SaveTar writes the image to path as `docker save` does, under the name ref ("host/repository:tag"). The file is
// there whole or not at all. `docker load`, `kind load image-archive` and containerd take such a file.
func SaveTar(path, ref string, img v1.Image) error {
	tag, err := name.NewTag(ref, name.StrictValidation)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if err := tarball.Write(tag, img, tmp); err != nil {
		_ = tmp.Close()
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := os.Chmod(tmp.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// TarContent gives the name under which SaveTar stored the image in a file, and the digest of its configuration, which
// changes with everything in the image.
func TarContent(path string) (ref string, config v1.Hash, err error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(path) })
	if err != nil {
		return "", v1.Hash{}, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(manifest) != 1 || len(manifest[0].RepoTags) != 1 {
		return "", v1.Hash{}, fmt.Errorf("%s does not hold exactly one named image", path)
	}
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return "", v1.Hash{}, fmt.Errorf("reading %s: %w", path, err)
	}
	config, err = img.ConfigName()
	return manifest[0].RepoTags[0], config, err
}

// Push writes the image to a registry under ref ("host:port/repository:tag") and gives its digest. Layers that the
// registry has are not sent. With insecure the registry is spoken to over plain HTTP.
func Push(ctx context.Context, ref string, img v1.Image, insecure bool, login authn.Keychain) (digest string, err error) {
	opts := []name.Option{name.StrictValidation}
	if insecure {
		opts = append(opts, name.Insecure)
	}
	tag, err := name.NewTag(ref, opts...)
	if err != nil {
		return "", err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(login)}
	if err := remote.Write(tag, img, options...); err != nil {
		return "", fmt.Errorf("pushing %s: %w", ref, err)
	}
	hash, err := img.Digest()
	return hash.String(), err
}
