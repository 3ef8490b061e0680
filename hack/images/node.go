// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/spf13/cobra"

	"github.com/naeel/sless/hack/images/internal/layer"
	"github.com/naeel/sless/hack/images/internal/recipe"
	"github.com/naeel/sless/hack/internal/cluster"
	"github.com/naeel/sless/hack/internal/oci"
	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/hack/internal/toolcache"
)

// nodeImage is an image that the node needs before there is a registry.
type nodeImage struct {
	name   string
	ref    string
	layers []v1.Layer
	config oci.Spec
}

func newNodeCommand() *cobra.Command {
	var output string
	var only []string
	var load bool
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Make the images that are imported into the node, as archives",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := newWorkshop(cmd.Context(), cmd.Name())
			if err != nil {
				return err
			}
			results, err := w.nodeImages(cmd.Context(), only)
			if err != nil {
				return err
			}
			if err := w.pruneLayers(); err != nil {
				return err
			}
			if load {
				if err := w.load(cmd.Context(), results); err != nil {
					return err
				}
			}
			return printResults(cmd.OutOrStdout(), output, results)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", outputText, "text or json")
	cmd.Flags().StringSliceVar(&only, "only", nil, "names of the images to make (default all without KEDA's): "+
		strings.Join(nodeImageNames(), ", "))
	cmd.Flags().BoolVar(&load, "load", false, "also import them into the node of the local cluster")
	return cmd
}

// load imports the archives into the node of the cluster that belongs to this checkout.
func (w *workshop) load(ctx context.Context, results []result) error {
	c, err := cluster.New(w.checkout, w.progress, time.Now)
	if err != nil {
		return err
	}
	var archives []string
	for _, r := range results {
		archives = append(archives, r.Archive)
	}
	return w.progress.Step("Import into the node", func(say progress.Say) (string, error) {
		loaded, err := c.Load(ctx, say, archives...)
		return fmt.Sprintf("%d imported, %d there", loaded, len(archives)-loaded), err
	})
}

// nodeImages makes the archives of the images with the given names, all but the optional ones when there are none.
func (w *workshop) nodeImages(ctx context.Context, only []string) ([]result, error) {
	names := nodeImageNames()
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no node image is called %q: there are %s", name, strings.Join(names, ", "))
		}
	}
	var results []result
	for _, maker := range nodeImageMakers() {
		if !slices.Contains(only, maker.name) && (len(only) > 0 || maker.optional) {
			continue
		}
		img, err := maker.make(ctx, w)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", maker.name, err)
		}
		r, err := w.archive(img)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", maker.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// toolProgram returns a program of a tools group and the version of the group.
func (w *workshop) toolProgram(ctx context.Context, groupName, name string) (p program, version string, err error) {
	group, err := toolcache.Named(w.checkout, groupName)
	if err != nil {
		return program{}, "", err
	}
	if version, err = group.Version(); err != nil {
		return program{}, "", err
	}
	dir, built, err := w.tools.Folder(ctx, group)
	if err != nil {
		return program{}, "", err
	}
	if !built {
		err := w.progress.Step("Build "+name, func(say progress.Say) (string, error) {
			_, err := w.tools.Build(ctx, group, func(line string) { say("%s", line) })
			return "", err
		})
		if err != nil {
			return program{}, "", err
		}
	}
	// The folder's name has the key of everything that decides its content: no need to read the program.
	return program{path: filepath.Join(dir, name), sha256: filepath.Base(dir) + "/" + name}, version, nil
}

// archive writes the image where it is not yet, under a name that depends on its content.
func (w *workshop) archive(n *nodeImage) (result, error) {
	img, err := assemble(n.layers, n.config)
	if err != nil {
		return result{}, err
	}
	id, err := img.ConfigName()
	if err != nil {
		return result{}, err
	}
	key, err := recipe.Key(n.ref, id)
	if err != nil {
		return result{}, err
	}
	r := result{Name: n.name, Ref: n.ref, ID: id.String(), Archive: filepath.Join(w.dir, "node", n.name+"-"+key+".tar")}
	err = w.progress.Step("Image "+n.ref, func(progress.Say) (string, error) {
		outcome := "up to date"
		if _, err := os.Stat(r.Archive); errors.Is(err, fs.ErrNotExist) {
			outcome = "made"
			if err := oci.SaveTar(r.Archive, n.ref, img); err != nil {
				return "", err
			}
		}
		info, err := os.Stat(r.Archive)
		if err != nil {
			return "", err
		}
		r.Bytes = info.Size()
		pattern := filepath.Join(w.dir, "node", n.name+"-*.tar")
		return fmt.Sprintf("%s, %.1f MB", outcome, megabytes(r.Bytes)), prune(pattern, keepArchives, r.Archive)
	})
	return r, err
}

// assemble puts layers and configuration together.
func assemble(layers []v1.Layer, config oci.Spec) (v1.Image, error) {
	base := config.Base
	if base == nil {
		base = mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	}
	base, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		return nil, err
	}
	config.Base = base
	return oci.Build(config)
}

// layers turns results of layer functions into the list that an image takes.
func layers(list ...*layer.Cached) []v1.Layer {
	out := make([]v1.Layer, 0, len(list))
	for _, l := range list {
		out = append(out, l)
	}
	return out
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }
