// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

func TestKEDAOverlay(t *testing.T) {
	t.Parallel()
	images := map[string]madeImage{}
	for _, name := range kedaImages() {
		images[name] = madeImage{Ref: "sless.local/" + name + ":v1"}
	}
	data, err := kedaOverlay([]string{"a.yaml", "b.yaml"}, images)
	if err != nil {
		t.Fatal(err)
	}
	got := struct {
		Resources []string
		Images    []map[string]string
	}{}
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"../../../config/keda", "a.yaml", "b.yaml"}, got.Resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	want := map[string]string{"name": "keda-operator", "newName": "sless.local/keda-operator", "newTag": "v1"}
	if !slices.ContainsFunc(got.Images, func(image map[string]string) bool { return cmp.Equal(image, want) }) {
		t.Errorf("images %v lack %v", got.Images, want)
	}
	delete(images, "keda-operator")
	if _, err := kedaOverlay(nil, images); err == nil || !strings.Contains(err.Error(), "keda-operator") {
		t.Errorf("error %v, want one that names the image that is missing", err)
	}
}

// TestKEDAManifests holds config/keda to the names that are used here.
func TestKEDAManifests(t *testing.T) {
	t.Parallel()
	var names, images []string
	err := filepath.WalkDir("../../config/keda", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "deployment.yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		deployment := appsv1.Deployment{}
		if err := yaml.UnmarshalStrict(data, &deployment); err != nil {
			return err
		}
		names = append(names, deployment.Name)
		for _, container := range deployment.Spec.Template.Spec.Containers {
			images = append(images, container.Image)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	asSet := cmp.Transformer("sorted", func(list []string) map[string]bool {
		set := map[string]bool{}
		for _, s := range list {
			set[s] = true
		}
		return set
	})
	if diff := cmp.Diff(kedaDeployments(), names, asSet); diff != "" {
		t.Errorf("Deployments (-waited for +in config/keda):\n%s", diff)
	}
	if diff := cmp.Diff(kedaImages(), images, asSet); diff != "" {
		t.Errorf("images (-made +in config/keda):\n%s", diff)
	}
}

func TestCopyDefinitions(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	if _, err := copyDefinitions(from, to); err == nil {
		t.Error("a module without definitions is taken")
	}
	for name, text := range map[string]string{"one.yaml": "kind: A", "two.yaml": "kind: B", "notes.md": ""} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	names, err := copyDefinitions(from, to)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one.yaml", "two.yaml"}, names); diff != "" {
		t.Errorf("copied (-want +got):\n%s", diff)
	}
	if data, err := os.ReadFile(filepath.Join(to, "two.yaml")); err != nil || string(data) != "kind: B" {
		t.Errorf("the copy holds %q, error %v", data, err)
	}
}
