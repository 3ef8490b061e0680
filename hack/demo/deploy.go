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
	if err := d.deployServers(ctx, images); err != nil {
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

// deployServers brings the demo's registry and object store up to date, and then sless, which is told where they are. The
// images that sless makes pods of are in the registry before it starts.
func (d *deployment) deployServers(ctx context.Context, images map[string]madeImage) error {
	all, err := ensureSecrets(ctx, d.printer, d.kubeconfig, partStore, partRegistry)
	if err != nil {
		return err
	}
	login, err := writeLogin(d.checkout, all)
	if err != nil {
		return err
	}
	folder, err := writeServersOverlay(d.checkout, all.version())
	if err != nil {
		return err
	}
	if err := d.applyStep(ctx, "Applying registry and object store", folder); err != nil {
		return err
	}
	if err := d.waitFor(ctx, "registry and object store", partsNamespace, partRegistry, partStore); err != nil {
		return err
	}
	pushed, err := d.pushImages(ctx, images, login)
	if err != nil {
		return err
	}
	folder, err = writeOverlay(ctx, d.checkout, overlay{
		image: images["sless"].Ref, builder: pushed["sless"], kaniko: pushed["kaniko"], secrets: all.version(),
	})
	if err != nil {
		return err
	}
	return d.applyStep(ctx, "Applying sless", folder)
}

// startCluster starts the local cluster, or what is missing of it.
func startCluster(ctx context.Context, opts options, printer *progress.Printer) (*deployment, error) {
	if opts.cluster != clusterLocal {
		return nil, errors.New("deploy works on the local cluster; docs/install.md tells how to install sless on another one")
	}
	d := &deployment{
		checkout:   opts.checkout,
		kubeconfig: localKubeconfig(opts.checkout),
		printer:    printer,
	}
	if err := d.run(ctx, os.Stdout, "go", "run", "./hack/cluster", "up"); err != nil {
		return nil, fmt.Errorf("starting the cluster: %w", err)
	}
	return d, d.findKubectl(ctx)
}

func localKubeconfig(checkout string) string {
	return filepath.Join(checkout, "bin", "cluster", "kubeconfig")
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

// madeImage is an image in a file: its short name and the one by which the node knows it.
type madeImage struct{ Name, Ref, Archive string }

// loadImages makes the images that the node needs before there is a registry, those with the given names or the usual ones.
// It returns them by name.
func (d *deployment) loadImages(ctx context.Context, names ...string) (map[string]madeImage, error) {
	out := &bytes.Buffer{}
	err := d.run(ctx, out, "go", "run", "./hack/images", "node", "--output=json", "--only="+strings.Join(names, ","))
	if err != nil {
		return nil, fmt.Errorf("making the images: %w", err)
	}
	made := struct {
		Images []madeImage `json:"images"`
	}{}
	if err := json.Unmarshal(out.Bytes(), &made); err != nil {
		return nil, fmt.Errorf("reading the list of images: %w", err)
	}
	args := []string{"run", "./hack/cluster", "load"}
	images := map[string]madeImage{}
	for _, image := range made.Images {
		args = append(args, image.Archive)
		images[image.Name] = image
	}
	if err := d.run(ctx, os.Stdout, "go", args...); err != nil {
		return nil, fmt.Errorf("loading the images into the node: %w", err)
	}
	return images, nil
}

func (d *deployment) applyStep(ctx context.Context, title, overlay string) error {
	return d.printer.Step(title, func(progress.Say) (string, error) { return d.apply(ctx, overlay) })
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
