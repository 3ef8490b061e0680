// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// machineCertificates is where Debian keeps the certificate authorities that the machine trusts.
const machineCertificates = "/etc/ssl/certs/ca-certificates.crt"

// overlay is what only this machine knows of sless on it.
type overlay struct {
	// image is that of manager and gateway, which the node has. builder and kaniko are those of the pods that sless makes.
	image, builder, kaniko string
	// secrets is the version of what manager and gateway read at their start.
	secrets string
}

// object is a piece of YAML.
type object = map[string]any

// writeOverlay writes a kustomization over config/local that holds what only this machine knows: the images just made, the
// certificate authorities, and the package mirror. It returns the folder.
func writeOverlay(ctx context.Context, checkout string, o overlay) (string, error) {
	certificates, err := os.ReadFile(machineCertificates)
	if err != nil {
		return "", fmt.Errorf("reading the machine's certificate authorities: %w", err)
	}
	settings, err := os.ReadFile(filepath.Join(checkout, "config", "local", "config.yaml"))
	if err != nil {
		return "", err
	}
	if settings, err = withBuilds(settings, o.kaniko, machineBuildEnv(ctx)); err != nil {
		return "", err
	}
	kustomization, err := overlayFor(o)
	if err != nil {
		return "", err
	}
	return writeFolder(checkout, "deploy", map[string][]byte{
		"ca.crt": certificates, "config.yaml": settings, "kustomization.yaml": kustomization,
	})
}

// writeServersOverlay writes a kustomization over config/demo/local, whose object store starts anew with another version of
// its Secrets. It returns the folder.
func writeServersOverlay(checkout, secretsVersion string) (string, error) {
	kustomization, err := yaml.Marshal(object{
		"apiVersion": "kustomize.config.k8s.io/v1beta1",
		"kind":       "Kustomization",
		"resources":  []string{"../../../config/demo/local"},
		"patches":    []object{rollWith(secretsVersion, partStore)},
	})
	if err != nil {
		return "", err
	}
	return writeFolder(checkout, "servers", map[string][]byte{"kustomization.yaml": kustomization})
}

// writeFolder writes files to a folder beside the kubeconfig and returns it.
func writeFolder(checkout, name string, files map[string][]byte) (string, error) {
	folder := filepath.Join(checkout, "bin", "cluster", name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	for file, data := range files {
		if err := os.WriteFile(filepath.Join(folder, file), data, 0o644); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// rollWith is a patch that gives the pods of Deployments, a regular expression, an annotation with the version.
func rollWith(version, deployments string) object {
	return object{
		"target": object{"kind": "Deployment", "name": deployments},
		"patch": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: any\nspec:\n  template:\n    metadata:\n" +
			"      annotations:\n        sless.io/demo-secrets: \"" + version + "\"\n",
	}
}

// overlayFor returns the kustomization that sets the images, for the pods of sless and for those that it makes.
func overlayFor(o overlay) ([]byte, error) {
	name, tag, ok := strings.Cut(o.image, ":")
	if !ok {
		return nil, fmt.Errorf("image %s has no tag", o.image)
	}
	return yaml.Marshal(object{
		"apiVersion": "kustomize.config.k8s.io/v1beta1",
		"kind":       "Kustomization",
		"resources":  []string{"../../../config/local"},
		"images":     []object{{"name": "controller", "newName": name, "newTag": tag}},
		"configMapGenerator": []object{
			{"name": "sless-config", "namespace": "sless-system", "behavior": "replace", "files": []string{"config.yaml"}},
			{"name": "ca-bundle", "namespace": "sless-builds", "files": []string{"ca.crt"},
				"options": object{"disableNameSuffixHash": true}},
		},
		"patches": []object{
			{
				"target": object{"kind": "Deployment", "name": "sless-controller-manager"},
				"patch": "- op: replace\n  path: /spec/template/spec/containers/0/env/2\n" +
					"  value: {name: BUILDER_IMAGE, value: \"" + o.builder + "\"}\n",
			},
			rollWith(o.secrets, "sless-(controller-manager|gateway)"),
		},
	})
}

// withBuilds sets the image of kaniko in a configuration, and adds variables to builds.env.
func withBuilds(settings []byte, kaniko string, env map[string]string) ([]byte, error) {
	config := object{}
	if err := yaml.Unmarshal(settings, &config); err != nil {
		return nil, fmt.Errorf("reading the local configuration: %w", err)
	}
	builds, ok := config["builds"].(object)
	if !ok {
		builds = object{}
		config["builds"] = builds
	}
	builds["kanikoImage"] = kaniko
	if len(env) > 0 {
		builds["env"] = env
	}
	return yaml.Marshal(config)
}

// machineBuildEnv returns the package mirror of this machine's npm, if there is an npm.
func machineBuildEnv(ctx context.Context) map[string]string {
	out, err := exec.CommandContext(ctx, "npm", "config", "get", "registry").Output()
	mirror := strings.TrimSpace(string(out))
	if err != nil || !strings.HasPrefix(mirror, "http") {
		return nil
	}
	return map[string]string{"NPM_CONFIG_REGISTRY": mirror}
}
