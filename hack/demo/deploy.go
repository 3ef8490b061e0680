// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/hack/internal/toolcache"
)

// deployment is a run of deploy: the local cluster with sless on it.
type deployment struct {
	checkout   string
	kubeconfig string
	kubectl    string
	printer    *progress.Printer
}

// deploy starts the local cluster and brings everything on it up to date: images, registry, object store, sless. On a
// cluster where nothing changed it writes nothing.
func deploy(ctx context.Context, opts options, printer *progress.Printer) (*deployment, error) {
	d, err := startCluster(ctx, opts, printer)
	if err != nil {
		return nil, err
	}
	images, err := d.loadImages(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.applyManifests(ctx, images["sless"]); err != nil {
		return nil, err
	}
	if err := d.waitFor(ctx, "registry and object store", "sless-demo", "registry", "s3"); err != nil {
		return nil, err
	}
	if err := d.run(ctx, io.Discard, "go", "run", "./hack/images", "runtimes"); err != nil {
		return nil, fmt.Errorf("making the runtime images: %w", err)
	}
	if opts.keda {
		if err := d.deployKEDA(ctx); err != nil {
			return nil, err
		}
	}
	return d, d.waitFor(ctx, "sless", "sless-system", "sless-controller-manager", "sless-gateway")
}

// startCluster starts the local cluster, or what is missing of it.
func startCluster(ctx context.Context, opts options, printer *progress.Printer) (*deployment, error) {
	if opts.cluster != clusterLocal {
		return nil, errors.New("deploy works on the local cluster; docs/install.md tells how to install sless on another one")
	}
	d := &deployment{
		checkout:   opts.checkout,
		kubeconfig: filepath.Join(opts.checkout, "bin", "cluster", "kubeconfig"),
		printer:    printer,
	}
	if err := d.run(ctx, os.Stdout, "go", "run", "./hack/cluster", "up"); err != nil {
		return nil, fmt.Errorf("starting the cluster: %w", err)
	}
	return d, d.findKubectl(ctx)
}

func (d *deployment) findKubectl(ctx context.Context) error {
	group, err := toolcache.Named(d.checkout, toolcache.Kubernetes)
	if err != nil {
		return err
	}
	root, err := toolcache.Root()
	if err != nil {
		return err
	}
	folder, err := toolcache.Cache{Dir: root}.Build(ctx, group, nil)
	if err != nil {
		return fmt.Errorf("building kubectl: %w", err)
	}
	d.kubectl = filepath.Join(folder, "kubectl")
	return nil
}

// loadImages makes the images that the node needs before there is a registry, those with the given names or the usual ones.
// It returns their references by name.
func (d *deployment) loadImages(ctx context.Context, names ...string) (map[string]string, error) {
	out := &bytes.Buffer{}
	err := d.run(ctx, out, "go", "run", "./hack/images", "node", "--output=json", "--only="+strings.Join(names, ","))
	if err != nil {
		return nil, fmt.Errorf("making the images: %w", err)
	}
	made := struct {
		Images []struct{ Name, Ref, Archive string } `json:"images"`
	}{}
	if err := json.Unmarshal(out.Bytes(), &made); err != nil {
		return nil, fmt.Errorf("reading the list of images: %w", err)
	}
	args := []string{"run", "./hack/cluster", "load"}
	refs := map[string]string{}
	for _, image := range made.Images {
		args = append(args, image.Archive)
		refs[image.Name] = image.Ref
	}
	if err := d.run(ctx, os.Stdout, "go", args...); err != nil {
		return nil, fmt.Errorf("loading the images into the node: %w", err)
	}
	return refs, nil
}

func (d *deployment) applyManifests(ctx context.Context, slessImage string) error {
	return d.printer.Step("Applying the manifests", func(progress.Say) (string, error) {
		overlay, err := writeOverlay(ctx, d.checkout, slessImage)
		if err != nil {
			return "", err
		}
		return d.apply(ctx, overlay)
	})
}

// apply applies a kustomization and tells how many objects it has.
func (d *deployment) apply(ctx context.Context, overlay string) (string, error) {
	out := &bytes.Buffer{}
	if err := d.kube(ctx, out, "apply", "--server-side", "--force-conflicts", "--kustomize", overlay); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d objects", strings.Count(out.String(), "\n")), nil
}

// waitFor waits until Deployments have rolled out. kubectl says what it waits for, and gives up after some minutes.
func (d *deployment) waitFor(ctx context.Context, what, namespace string, names ...string) error {
	return d.printer.Step("Waiting for "+what, func(say progress.Say) (string, error) {
		for _, name := range names {
			say("waiting for %s", name)
			err := d.kube(ctx, &bytes.Buffer{}, "--namespace", namespace, "rollout", "status", "deployment/"+name, "--timeout=5m")
			if err != nil {
				return "", d.withState(ctx, namespace, err)
			}
		}
		return "ready", nil
	})
}

// withState adds what happens in a namespace to an error.
func (d *deployment) withState(ctx context.Context, namespace string, err error) error {
	state := &bytes.Buffer{}
	_ = d.kube(ctx, state, "--namespace", namespace, "get", "pods,events")
	return fmt.Errorf("%w\n%s", err, state)
}

func (d *deployment) kube(ctx context.Context, out *bytes.Buffer, args ...string) error {
	return d.run(ctx, out, d.kubectl, append([]string{"--kubeconfig", d.kubeconfig}, args...)...)
}

// run runs a program in the checkout. What it says to standard error is shown when out is the terminal, and else part of
// the error.
func (d *deployment) run(ctx context.Context, out io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = d.checkout
	cmd.Env = append(os.Environ(), d.printer.Env())
	cmd.Stdout = out
	said := &bytes.Buffer{}
	cmd.Stderr = os.Stderr
	if name == d.kubectl {
		cmd.Stderr = said
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, said)
	}
	return nil
}
