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

// writeOverlay writes a kustomization over config/local that holds what only this machine knows: the image just made, the
// certificate authorities, and the package mirror. It returns the folder.
func writeOverlay(ctx context.Context, checkout, slessImage string) (string, error) {
	folder := filepath.Join(checkout, "bin", "cluster", "deploy")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	certificates, err := os.ReadFile(machineCertificates)
	if err != nil {
		return "", fmt.Errorf("reading the machine's certificate authorities: %w", err)
	}
	settings, err := os.ReadFile(filepath.Join(checkout, "config", "local", "config.yaml"))
	if err != nil {
		return "", err
	}
	if settings, err = withBuildEnv(settings, machineBuildEnv(ctx)); err != nil {
		return "", err
	}
	kustomization, err := overlayFor(slessImage)
	if err != nil {
		return "", err
	}
	for name, data := range map[string][]byte{
		"ca.crt": certificates, "config.yaml": settings, "kustomization.yaml": kustomization,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// overlayFor returns the kustomization that sets the image of sless, for its pods and for the steps of builds.
func overlayFor(slessImage string) ([]byte, error) {
	name, tag, ok := strings.Cut(slessImage, ":")
	if !ok {
		return nil, fmt.Errorf("image %s has no tag", slessImage)
	}
	type object = map[string]any
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
		"patches": []object{{
			"target": object{"kind": "Deployment", "name": "sless-controller-manager"},
			"patch": "- op: replace\n  path: /spec/template/spec/containers/0/env/2\n" +
				"  value: {name: BUILDER_IMAGE, value: \"" + slessImage + "\"}\n",
		}},
	})
}

// withBuildEnv adds variables to builds.env of a configuration.
func withBuildEnv(settings []byte, env map[string]string) ([]byte, error) {
	if len(env) == 0 {
		return settings, nil
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(settings, &config); err != nil {
		return nil, fmt.Errorf("reading the local configuration: %w", err)
	}
	builds, ok := config["builds"].(map[string]any)
	if !ok {
		builds = map[string]any{}
		config["builds"] = builds
	}
	builds["env"] = env
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
