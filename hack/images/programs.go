// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/naeel/sless/hack/images/internal/layer"
	"github.com/naeel/sless/hack/images/internal/recipe"
	"github.com/naeel/sless/hack/internal/progress"
)

// formatVersion is part of every cache key: raise it when code in here makes other bytes from the same input.
const formatVersion = 1

// program is a built program.
type program struct {
	path   string // on this machine
	sha256 string // of the file, in hex
}

// build builds main packages of this checkout, given as folders, and returns them by folder. The Go tool leaves a
// program alone that is up to date, so this takes about a second when nothing changed.
func (w *workshop) build(ctx context.Context, folders ...string) (map[string]program, error) {
	programs := map[string]program{}
	err := w.progress.Step("Build "+strings.Join(folders, ", "), func(say progress.Say) (string, error) {
		for _, folder := range folders {
			p, err := w.buildOne(ctx, folder, say)
			if err != nil {
				return "", err
			}
			programs[folder] = p
		}
		return "", nil
	})
	return programs, err
}

func (w *workshop) buildOne(ctx context.Context, folder string, say progress.Say) (program, error) {
	if _, err := os.Stat(filepath.Join(w.checkout, folder)); err != nil {
		return program{}, err
	}
	target := filepath.Join(w.dir, "bin", filepath.Base(folder))
	// Stamping the revision is off, for a commit that changes no code must not change the image.
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w",
		"-o", target, "./"+folder)
	cmd.Dir = w.checkout
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	watch := &buildWatcher{folder: folder, say: say}
	cmd.Stdout, cmd.Stderr = watch, watch
	if err := cmd.Run(); err != nil {
		return program{}, fmt.Errorf("go build ./%s: %w\n%s", folder, err, watch.messages.String())
	}
	sum, err := fileSHA256(target)
	return program{path: target, sha256: sum}, err
}

// programLayer returns the layer that holds a program at the path in the image.
func (w *workshop) programLayer(p program, path string) (*layer.Cached, error) {
	return w.layer("program", func() (layer.Tree, error) {
		data, err := os.ReadFile(p.path)
		if err != nil {
			return nil, err
		}
		return layer.Tree{path: layer.File(0o755, data)}, nil
	}, path, p.sha256)
}

// filesLayer returns a layer of small files, whose content is its cache key.
func (w *workshop) filesLayer(tree layer.Tree) (*layer.Cached, error) {
	return w.layer("files", func() (layer.Tree, error) { return tree, nil }, tree)
}

// layer returns the layer of the kind that the parts of its key describe, making it when the cache does not have it.
func (w *workshop) layer(kind string, tree func() (layer.Tree, error), key ...any) (*layer.Cached, error) {
	name, err := recipe.Key(slices.Concat([]any{formatVersion, kind}, key)...)
	if err != nil {
		return nil, err
	}
	l, _, err := layer.Get(filepath.Join(w.dir, "layers", kind+"-"+name+".tar.gz"), func() (layer.Tree, error) {
		t, err := tree()
		if err == nil {
			t.AddParents()
		}
		return t, err
	})
	return l, err
}

func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
