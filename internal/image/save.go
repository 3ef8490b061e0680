// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Save writes the image that ref names by digest to a file in dir, in the format of docker save, and gives the file's name:
// the digest, as kaniko looks for it.
func (r *Registry) Save(ctx context.Context, ref, dir string) (string, error) {
	digest, err := r.parseDigest(ref)
	if err != nil {
		return "", err
	}
	img, err := r.image(ctx, digest)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", ref, err)
	}
	manifest, err := img.Manifest()
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", ref, err)
	}
	if manifest.Config.Size > maxDocument {
		return "", fmt.Errorf("reading %s: its configuration has %d bytes", ref, manifest.Config.Size)
	}
	file, err := os.CreateTemp(dir, ".save-*")
	if err != nil {
		return "", err
	}
	err = errors.Join(tarball.Write(digest, img, file), file.Close())
	path := filepath.Join(dir, digest.DigestStr())
	if err == nil {
		// Half a file is never found under the name.
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("saving %s: %w", ref, err), os.Remove(file.Name()))
	}
	return path, nil
}
