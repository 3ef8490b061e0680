// SPDX-License-Identifier: Apache-2.0

// Package oci assembles container images from files, without a container engine.
//
// Images are reproducible: the same input gives the same digest, on every machine with the same Go version. Layers
// hold sorted entries with a fixed time and numeric owners only.
package oci

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Spec says what an image holds and how it is run. Empty fields leave what Base has.
type Spec struct {
	// Base is the image that the layers go onto; nil means an empty one.
	Base v1.Image
	// Layers are put on Base in order.
	Layers []Layer

	// Entrypoint and Cmd are the command line; setting Entrypoint also drops the Cmd of Base, as Dockerfiles do.
	Entrypoint []string
	Cmd        []string
	// Env is laid over the environment of Base.
	Env map[string]string
	// User is "uid:gid".
	User       string
	WorkingDir string
	// Labels are laid over those of Base.
	Labels map[string]string
	// Architecture is a Go architecture; empty means that of Base, else the one this program runs on.
	Architecture string
}

// epoch is the time of everything in an image.
func epoch() time.Time { return time.Unix(0, 0).UTC() }

// Build makes the image that the spec describes. Files of layers are read at once; a missing one is an error that
// names it.
func Build(spec Spec) (v1.Image, error) {
	img := spec.Base
	if img == nil {
		img = mutate.MediaType(empty.Image, types.OCIManifestSchema1)
		img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	}
	for i, layer := range spec.Layers {
		l, err := layer.build()
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: l, History: layer.history()}); err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the image's configuration: %w", err)
	}
	cfg = cfg.DeepCopy()
	spec.configure(cfg)
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		return nil, fmt.Errorf("writing the image's configuration: %w", err)
	}
	return img, nil
}

// configure writes the spec into the configuration of the image.
func (s Spec) configure(cfg *v1.ConfigFile) {
	cfg.Created = v1.Time{Time: epoch()}
	cfg.OS = "linux"
	if s.Architecture != "" {
		cfg.Architecture = s.Architecture
	} else if cfg.Architecture == "" {
		cfg.Architecture = runtime.GOARCH
	}
	if s.Entrypoint != nil {
		cfg.Config.Entrypoint, cfg.Config.Cmd = s.Entrypoint, nil
	}
	if s.Cmd != nil {
		cfg.Config.Cmd = s.Cmd
	}
	if s.User != "" {
		cfg.Config.User = s.User
	}
	if s.WorkingDir != "" {
		cfg.Config.WorkingDir = s.WorkingDir
	}
	cfg.Config.Env = overlayEnv(cfg.Config.Env, s.Env)
	if len(s.Labels) > 0 {
		labels := maps.Clone(cfg.Config.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, s.Labels)
		cfg.Config.Labels = labels
	}
}

// overlayEnv replaces variables in place and adds new ones at the end, sorted.
func overlayEnv(base []string, over map[string]string) []string {
	var env []string
	seen := map[string]bool{}
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if value, ok := over[name]; ok {
			kv = name + "=" + value
		}
		seen[name] = true
		env = append(env, kv)
	}
	for _, name := range slices.Sorted(maps.Keys(over)) {
		if !seen[name] {
			env = append(env, name+"="+over[name])
		}
	}
	return env
}
