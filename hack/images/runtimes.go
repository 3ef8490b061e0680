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
	"github.com/spf13/cobra"

	"github.com/naeel/sless/hack/images/internal/recipe"
	"github.com/naeel/sless/hack/internal/cluster"
)

const (
	// demoRegistry is the address of the demo's registry as this machine sees it; see config/demo/local.
	demoRegistry = cluster.RegistryAddress
	// watchdogFolder is the main package of the program that is the first process of every function.
	watchdogFolder = "runtimes/watchdog"
)

// Where the base image of a runtime comes from.
const (
	basePull  = "pull"  // the image that the Dockerfile names
	baseLocal = "local" // made on this machine from local.yaml
	baseAuto  = "auto"  // pulled where its registry answers, else made
)

// runtimeOptions are the flags of the command.
type runtimeOptions struct {
	registry  string
	plainHTTP bool
	login     string
	base      string
	push      bool
	wait      time.Duration
	only      []string
	output    string
}

func newRuntimesCommand() *cobra.Command {
	opt := runtimeOptions{}
	cmd := &cobra.Command{
		Use:   "runtimes",
		Short: "Make the runtime images and push them to a registry",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("plain-http") {
				opt.plainHTTP = opt.registry == demoRegistry
			}
			if !slices.Contains([]string{baseAuto, basePull, baseLocal}, opt.base) {
				return fmt.Errorf("base is %q, but can be %s, %s or %s", opt.base, baseAuto, basePull, baseLocal)
			}
			w, err := newWorkshop(cmd.Context(), cmd.Name())
			if err != nil {
				return err
			}
			if opt.login == "" && opt.registry == demoRegistry {
				opt.login = cluster.RegistryLogin(w.checkout)
			}
			results, err := w.runtimeImages(cmd.Context(), opt)
			if err != nil {
				return err
			}
			if err := w.pruneLayers(); err != nil {
				return err
			}
			return printResults(cmd.OutOrStdout(), opt.output, results)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opt.registry, "registry", demoRegistry, "registry, and path in it, that the images are pushed to")
	flags.BoolVar(&opt.plainHTTP, "plain-http", false, "speak plain HTTP (default true for the demo's registry only)")
	flags.StringVar(&opt.login, "registry-config", "", "docker config.json with the login of the registry (default: that of "+
		"make cluster-deploy for the demo's registry, else the user's docker configuration)")
	flags.StringVar(&opt.base, "base", baseAuto, "where base images come from: pull, local, or auto (pull, else local)")
	flags.BoolVar(&opt.push, "push", true, "push the images; without it they are only made, for a later run to push")
	flags.DurationVar(&opt.wait, "wait", time.Minute, "how long to wait for the registry to answer")
	flags.StringSliceVar(&opt.only, "only", nil, "names of the runtimes (default all)")
	flags.StringVarP(&opt.output, "output", "o", outputText, "text or json")
	return cmd
}

// runtimeImages makes the images of the chosen runtimes and pushes them.
func (w *workshop) runtimeImages(ctx context.Context, opt runtimeOptions) ([]result, error) {
	sources, err := runtimeSources(filepath.Join(w.checkout, "runtimes"), opt.only)
	if err != nil {
		return nil, err
	}
	programs, err := w.build(ctx, watchdogFolder)
	if err != nil {
		return nil, err
	}
	base, err := recipe.LoadBase()
	if err != nil {
		return nil, err
	}
	maker := runtimeMaker{
		workshop: w, base: base, watchdog: programs[watchdogFolder], from: opt.base, silent: map[string]bool{},
	}
	images := map[*runtimeSource]v1.Image{}
	for _, source := range sources {
		if images[source], err = maker.image(ctx, source); err != nil {
			return nil, fmt.Errorf("runtime %s: %w", source.name, err)
		}
	}
	if !opt.push {
		return nil, nil
	}
	// The registry comes last: in the demo it starts while the images are made.
	pusher, err := newPusher(ctx, w.progress, opt)
	if err != nil {
		return nil, err
	}
	var results []result
	for _, source := range sources {
		r, err := pusher.push(ctx, source, images[source])
		if err != nil {
			return nil, fmt.Errorf("runtime %s: %w", source.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// runtimeSources finds the runtimes: the folders that have a runtime.yaml.
func runtimeSources(dir string, only []string) ([]*runtimeSource, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var sources []*runtimeSource
	var names []string
	for _, entry := range entries {
		folder := filepath.Join(dir, entry.Name())
		if !entry.IsDir() {
			continue
		}
		if _, err := os.Stat(filepath.Join(folder, catalogueFile)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		names = append(names, entry.Name())
		if len(only) > 0 && !slices.Contains(only, entry.Name()) {
			continue
		}
		source, err := loadRuntime(folder)
		if err != nil {
			return nil, fmt.Errorf("runtime %s: %w", entry.Name(), err)
		}
		sources = append(sources, source)
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no runtime is called %q: there are %s", name, strings.Join(names, ", "))
		}
	}
	return sources, nil
}
