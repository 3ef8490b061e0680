// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/hack/internal/toolcache"
)

const (
	kedaNamespace = "keda"
	metricsAPI    = "apiservice/v1beta1.external.metrics.k8s.io"
)

// kedaDeployments are the parts to wait for.
func kedaDeployments() []string {
	return []string{
		"keda-add-ons-http-interceptor", "keda-add-ons-http-external-scaler", "keda-metrics-apiserver", "keda-operator",
	}
}

// kedaImages are the names that config/keda gives its images, which are those that hack/images knows them by.
func kedaImages() []string {
	return []string{"http-add-on-interceptor", "http-add-on-scaler", "keda-adapter", "keda-operator"}
}

// kedaModules are the tools modules and the modules in them that bring CustomResourceDefinitions.
func kedaModules() map[string]string {
	return map[string]string{
		toolcache.KEDA: toolcache.KEDAModule, toolcache.HTTPAddOn: toolcache.HTTPAddOnModule,
	}
}

// upWithKEDA starts the local cluster, and KEDA with its http-add-on on it.
func upWithKEDA(ctx context.Context, opts options, printer *progress.Printer) error {
	d, err := startCluster(ctx, opts, printer)
	if err != nil {
		return err
	}
	return d.deployKEDA(ctx)
}

// deployKEDA brings KEDA and its http-add-on up to date and waits until both scale. Where nothing changed it writes nothing.
func (d *deployment) deployKEDA(ctx context.Context) error {
	images, err := d.loadImages(ctx, kedaImages()...)
	if err != nil {
		return err
	}
	err = d.printer.Step("Applying the manifests of KEDA", func(progress.Say) (string, error) {
		overlay, err := writeKEDAOverlay(ctx, d.checkout, images)
		if err != nil {
			return "", err
		}
		return d.apply(ctx, overlay)
	})
	if err != nil {
		return err
	}
	err = d.printer.Step("Waiting for "+metricsAPI, func(progress.Say) (string, error) {
		out := &bytes.Buffer{}
		if err := d.kube(ctx, out, "wait", "--for=condition=Available", metricsAPI, "--timeout=5m"); err != nil {
			return "", d.withState(ctx, kedaNamespace, err)
		}
		return "available", nil
	})
	if err != nil {
		return err
	}
	return d.waitFor(ctx, "KEDA and its http-add-on", kedaNamespace, kedaDeployments()...)
}

// writeKEDAOverlay writes a kustomization over config/keda with the images just made and the CustomResourceDefinitions of
// the modules they were made from. It returns the folder.
func writeKEDAOverlay(ctx context.Context, checkout string, images map[string]madeImage) (string, error) {
	folder := filepath.Join(checkout, "bin", "cluster", "keda")
	// What an earlier version brought must not stay.
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	var definitions []string
	for group, module := range kedaModules() {
		source, err := moduleFolder(ctx, filepath.Join(checkout, "hack", "tools", group), module)
		if err != nil {
			return "", err
		}
		copied, err := copyDefinitions(filepath.Join(source, "config", "crd", "bases"), folder)
		if err != nil {
			return "", err
		}
		definitions = append(definitions, copied...)
	}
	slices.Sort(definitions)
	kustomization, err := kedaOverlay(definitions, images)
	if err != nil {
		return "", err
	}
	return folder, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), kustomization, 0o644)
}

// moduleFolder returns where the source of a module lies that the module in dir requires, fetching it when it is missing.
func moduleFolder(ctx context.Context, dir, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("fetching module %s: %w\n%s", module, err, out)
	}
	fetched := struct{ Dir string }{}
	if err := json.Unmarshal(out, &fetched); err != nil {
		return "", fmt.Errorf("reading where module %s is: %w", module, err)
	}
	return fetched.Dir, nil
}

// copyDefinitions copies the manifests in a folder and returns their names.
func copyDefinitions(from, to string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s holds no CustomResourceDefinitions", from)
	}
	var names []string
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), data, 0o644); err != nil {
			return nil, err
		}
		names = append(names, filepath.Base(path))
	}
	return names, nil
}

// kedaOverlay returns the kustomization that sets the images, whose references it gets by the names in config/keda.
func kedaOverlay(definitions []string, images map[string]madeImage) ([]byte, error) {
	var set []object
	for _, name := range kedaImages() {
		newName, tag, ok := strings.Cut(images[name].Ref, ":")
		if !ok {
			return nil, errors.New("no image with a tag was made for " + name)
		}
		set = append(set, object{"name": name, "newName": newName, "newTag": tag})
	}
	return yaml.Marshal(object{
		"apiVersion": "kustomize.config.k8s.io/v1beta1",
		"kind":       "Kustomization",
		"resources":  append([]string{"../../../config/keda"}, definitions...),
		"images":     set,
	})
}
