// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"runtime"

	"github.com/naeel/sless/hack/images/internal/layer"
	"github.com/naeel/sless/hack/images/internal/npm"
	"github.com/naeel/sless/hack/images/internal/recipe"
	"github.com/naeel/sless/hack/images/internal/rootfs"
	"github.com/naeel/sless/hack/internal/progress"
)

// baseLayer returns the layer under every runtime that is made on this machine.
func (w *workshop) baseLayer(ctx context.Context, base *recipe.Base) (*layer.Cached, error) {
	return w.layer("base", func() (tree layer.Tree, err error) {
		if err := w.needPrograms(ctx, "mmdebstrap"); err != nil {
			return nil, err
		}
		err = w.progress.Step("Base root file system from Debian packages", func(progress.Say) (string, error) {
			tree, err = rootfs.Base(ctx, base)
			return "", err
		})
		return tree, err
	}, base, runtime.GOARCH)
}

// languageLayer returns what a runtime has over the base.
func (w *workshop) languageLayer(
	ctx context.Context, name string, base *recipe.Base, under *layer.Cached, local *recipe.Local,
) (*layer.Cached, error) {
	diffID, err := under.DiffID()
	if err != nil {
		return nil, err
	}
	return w.layer("language", func() (tree layer.Tree, err error) {
		var programs []string
		if len(local.Debian.Packages) > 0 {
			programs = append(programs, "mmdebstrap")
		}
		if len(local.NPM) > 0 {
			programs = append(programs, "npm")
		}
		if err := w.needPrograms(ctx, programs...); err != nil {
			return nil, err
		}
		err = w.progress.Step("Language of "+name, func(progress.Say) (string, error) {
			tree, err = makeLanguage(ctx, base, under, local)
			return "", err
		})
		return tree, err
	}, base, diffID, local, runtime.GOARCH)
}

func makeLanguage(
	ctx context.Context, base *recipe.Base, under *layer.Cached, local *recipe.Local,
) (layer.Tree, error) {
	extra, err := npm.Files(ctx, local.NPM, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	baseTree, err := under.Tree()
	if err != nil {
		return nil, err
	}
	whole, err := rootfs.Language(ctx, base, baseTree, local, extra)
	if err != nil {
		return nil, err
	}
	return whole.Without(baseTree), nil
}
