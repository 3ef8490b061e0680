// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/hack/images/internal/dockerfile"
	"github.com/naeel/sless/hack/images/internal/layer"
	"github.com/naeel/sless/hack/images/internal/recipe"
	"github.com/naeel/sless/hack/internal/oci"
)

const (
	catalogueFile = "runtime.yaml"
	// pullTimeout bounds the look whether a base image can be pulled; on a machine that is cut off it may hang.
	pullTimeout = 10 * time.Second
)

// localEnv is what base images set and a local base lacks.
var localEnv = map[string]string{
	"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"LANG": "C.UTF-8",
}

// runtimeSource is what a runtime's folder says about its image.
type runtimeSource struct {
	name    string
	image   string // name of the image
	version string // its tag
	dir     string
	stage   *dockerfile.Stage
}

func loadRuntime(dir string) (*runtimeSource, error) {
	data, err := os.ReadFile(filepath.Join(dir, catalogueFile))
	if err != nil {
		return nil, err
	}
	// The catalogue's own loader checks the rest of the file.
	var catalogue struct {
		Image   string `json:"image"`
		Version string `json:"version"`
	}
	if err := yaml.Unmarshal(data, &catalogue); err != nil {
		return nil, fmt.Errorf("%s: %w", catalogueFile, err)
	}
	if catalogue.Image == "" || !strings.HasPrefix(catalogue.Version, "v") {
		return nil, fmt.Errorf("%s: no image, or version %q does not look like v1.2.3", catalogueFile, catalogue.Version)
	}
	text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	stage, err := dockerfile.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading the Dockerfile: %w", err)
	}
	return &runtimeSource{
		name: filepath.Base(dir), image: catalogue.Image, version: catalogue.Version, dir: dir, stage: stage,
	}, nil
}

// runtimeMaker makes runtime images: a base, and what the Dockerfile puts onto it.
type runtimeMaker struct {
	*workshop
	base     *recipe.Base
	watchdog program
	from     string // basePull, baseLocal or baseAuto
	// silent has the registries that gave no base image in this run: asking them again may take its time again.
	silent map[string]bool
}

func (m *runtimeMaker) image(ctx context.Context, source *runtimeSource) (v1.Image, error) {
	base, under, err := m.baseImage(ctx, source)
	if err != nil {
		return nil, err
	}
	over, err := m.copies(source)
	if err != nil {
		return nil, err
	}
	env := maps.Clone(source.stage.Env)
	if base == nil {
		env = maps.Clone(localEnv)
		maps.Copy(env, source.stage.Env)
	}
	return assemble(layers(append(under, over...)...), oci.Spec{
		Base: base, Env: env, Labels: source.stage.Labels, User: source.stage.User, WorkingDir: source.stage.WorkDir,
		Entrypoint: source.stage.Entrypoint, Cmd: source.stage.Cmd,
	})
}

// baseImage returns the image that was pulled, or the layers that were made here.
func (m *runtimeMaker) baseImage(ctx context.Context, source *runtimeSource) (v1.Image, []*layer.Cached, error) {
	ref, err := name.ParseReference(source.stage.From)
	if err != nil {
		return nil, nil, err
	}
	registry := ref.Context().RegistryStr()
	if m.from != baseLocal && !m.silent[registry] {
		img, err := pull(ctx, ref)
		if err == nil {
			return img, nil, nil
		}
		if m.from == basePull || ctx.Err() != nil {
			return nil, nil, err
		}
		m.progress.Printf("Base image %s cannot be pulled: making bases here", ref)
		m.silent[registry] = true
	}
	local, err := recipe.LoadLocal(source.dir)
	if err != nil {
		return nil, nil, err
	}
	under, err := m.baseLayer(ctx, m.base)
	if err != nil {
		return nil, nil, err
	}
	language, err := m.languageLayer(ctx, source.name, m.base, under, local)
	return nil, []*layer.Cached{under, language}, err
}

// pull looks the image up; its layers are read when they are pushed.
func pull(ctx context.Context, ref name.Reference) (v1.Image, error) {
	probe, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	options := []remote.Option{remote.WithPlatform(platform), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if _, err := remote.Head(ref, append(options, remote.WithContext(probe))...); err != nil {
		return nil, fmt.Errorf("looking up %s: %w", ref, err)
	}
	img, err := remote.Image(ref, append(options, remote.WithContext(ctx))...)
	if err != nil {
		return nil, fmt.Errorf("pulling %s: %w", ref, err)
	}
	return img, nil
}

// copies returns the layer of the directories that the Dockerfile makes, and those of its COPY instructions, one each:
// the watchdog's is the same in all runtimes and is sent and stored once.
func (m *runtimeMaker) copies(source *runtimeSource) ([]*layer.Cached, error) {
	var out []*layer.Cached
	if len(source.stage.Dirs) > 0 {
		dirs := layer.Tree{}
		for _, dir := range source.stage.Dirs {
			dirs[layer.Clean(dir)] = layer.Dir(0o755)
		}
		l, err := m.filesLayer(dirs)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	for _, c := range source.stage.Copies {
		l, err := m.copyLayer(c)
		if err != nil {
			return nil, fmt.Errorf("COPY %s: %w", c.Source, err)
		}
		out = append(out, l)
	}
	return out, nil
}

func (m *runtimeMaker) copyLayer(c dockerfile.Copy) (*layer.Cached, error) {
	target := layer.Clean(c.Target)
	if c.Stage != "" {
		if path.Base(c.Source) != "watchdog" {
			return nil, errors.New("only the watchdog can come from another stage")
		}
		return m.programLayer(m.watchdog, target)
	}
	mode, err := recipe.ParseMode(c.Mode, 0o644)
	if err != nil {
		return nil, err
	}
	// The build context is the checkout.
	data, err := os.ReadFile(filepath.Join(m.checkout, c.Source))
	if err != nil {
		return nil, err
	}
	return m.filesLayer(layer.Tree{target: layer.File(mode, data)})
}
