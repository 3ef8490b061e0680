// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// maxTarballEntries is far more than an image has layers.
const maxTarballEntries = 1000

// PushRequest says what image file to push, and where to.
type PushRequest struct {
	// Path is a tar file with one image, in the format of docker save, which kaniko writes.
	Path string
	// Target is a repository and tag.
	Target string
	// Base is the image that this one was built on, or empty. Layers that are in its repository, in the same registry, are
	// mounted and not sent. It does no harm when they are not there.
	Base string
	// Labels are set on the image, whatever the file says of them.
	Labels map[string]string
}

// PushTarball pushes an image file and gives the digest. The layers are streamed from the file.
//
// The file comes out of a pod where code of the user ran. So it is checked first for what could harm this program, or
// make nodes fetch layers from elsewhere.
func (r *Registry) PushTarball(ctx context.Context, req PushRequest) (string, error) {
	tag, err := r.parseTag(req.Target)
	if err != nil {
		return "", err
	}
	if err := checkTarball(req.Path); err != nil {
		return "", &fileError{req.Path, err}
	}
	img, err := tarball.ImageFromPath(req.Path, nil)
	if err != nil {
		return "", &fileError{req.Path, err}
	}
	if img, err = withLabels(img, req.Labels); err != nil {
		return "", &fileError{req.Path, err}
	}
	if req.Base != "" {
		from, err := r.parse(req.Base)
		if err != nil {
			return "", err
		}
		img = &mountingImage{Image: img, from: from}
	}
	digest, err := img.Digest()
	if err != nil {
		return "", &fileError{req.Path, err}
	}
	if err := remote.Write(tag, img, r.options(ctx)...); err != nil {
		return "", fmt.Errorf("pushing %s: %w", req.Target, err)
	}
	return digest.String(), nil
}

// withLabels sets labels on an image, besides those that it has.
func withLabels(img v1.Image, labels map[string]string) (v1.Image, error) {
	if len(labels) == 0 {
		return img, nil
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config := *file.Config.DeepCopy()
	if config.Labels == nil {
		config.Labels = make(map[string]string, len(labels))
	}
	maps.Copy(config.Labels, labels)
	return mutate.Config(img, config)
}

// fileError is what is wrong with an image file. It is no fault of the registry, whatever its cause looks like.
type fileError struct {
	path string
	err  error
}

func (e *fileError) Error() string { return "image file " + e.path + ": " + e.err.Error() }

func (e *fileError) Unwrap() error { return e.err }

// mountingImage offers its layers for mounting from another repository.
type mountingImage struct {
	v1.Image

	from name.Reference
}

func (m *mountingImage) Layers() ([]v1.Layer, error) {
	layers, err := m.Image.Layers()
	if err != nil {
		return nil, err
	}
	for i, layer := range layers {
		layers[i] = &remote.MountableLayer{Layer: layer, Reference: m.from}
	}
	return layers, nil
}

// checkTarball makes sure that the library can read the file without filling the memory, and that all layers are in it.
func checkTarball(path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	sizes := map[string]int64{}
	var manifest tarball.Manifest
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := noteEntry(sizes, header); err != nil {
			return err
		}
		if header.Name == "manifest.json" {
			if manifest, err = readManifest(reader); err != nil {
				return err
			}
		}
	}
	return checkManifest(manifest, sizes)
}

func noteEntry(sizes map[string]int64, header *tar.Header) error {
	_, again := sizes[header.Name]
	switch {
	case header.Typeflag == tar.TypeDir:
		return nil
	case header.Typeflag != tar.TypeReg:
		return fmt.Errorf("entry %q is no file", header.Name)
	case again:
		return fmt.Errorf("entry %q appears twice", header.Name)
	case len(sizes) >= maxTarballEntries:
		return fmt.Errorf("it has more than %d entries", maxTarballEntries)
	}
	sizes[header.Name] = header.Size
	return nil
}

func readManifest(r io.Reader) (tarball.Manifest, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxDocument {
		return nil, errors.New("its manifest is too large")
	}
	var manifest tarball.Manifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, fmt.Errorf("its manifest: %w", err)
	}
	return manifest, nil
}

func checkManifest(manifest tarball.Manifest, sizes map[string]int64) error {
	if len(manifest) != 1 {
		return fmt.Errorf("it has %d images, expected one", len(manifest))
	}
	if len(manifest[0].LayerSources) > 0 {
		return errors.New("it has layers that are kept elsewhere")
	}
	size, found := sizes[manifest[0].Config]
	if !found || size > maxDocument {
		return errors.New("its configuration is missing or too large")
	}
	for _, layer := range manifest[0].Layers {
		if _, found := sizes[layer]; !found {
			return fmt.Errorf("its layer %q is missing", layer)
		}
	}
	return nil
}
