// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/hack/internal/cluster"
	"github.com/naeel/sless/internal/config"
)

func TestOverlayFor(t *testing.T) {
	t.Parallel()
	data, err := overlayFor(overlay{image: "sless.local/sless:abc", builder: "registry/sless@sha256:1", secrets: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	got := struct {
		Images  []map[string]string
		Patches []struct{ Patch string }
	}{}
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]string{{"name": "controller", "newName": "sless.local/sless", "newTag": "abc"}}
	if diff := cmp.Diff(want, got.Images); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if !strings.Contains(got.Patches[0].Patch, `value: "registry/sless@sha256:1"`) {
		t.Errorf("the steps of builds do not run in the image that was pushed: %s", got.Patches[0].Patch)
	}
	if !strings.Contains(got.Patches[1].Patch, `sless.io/demo-secrets: "v1"`) {
		t.Errorf("other Secrets would not start manager and gateway anew: %s", got.Patches[1].Patch)
	}
	if _, err := overlayFor(overlay{image: "no-tag"}); err == nil {
		t.Error("an image without a tag is taken")
	}
}

func TestWithBuilds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		settings string
		env      map[string]string
		want     object
	}{
		"no variables": {settings: "registry:\n  host: r\nbuilds:\n  maxConcurrent: 2\n", want: object{
			"registry": object{"host": "r"}, "builds": object{"maxConcurrent": float64(2), "kanikoImage": "k"},
		}},
		"added beside the rest": {settings: "builds:\n  maxConcurrent: 2\n", env: map[string]string{"A": "1"}, want: object{
			"builds": object{"maxConcurrent": float64(2), "kanikoImage": "k", "env": object{"A": "1"}},
		}},
		"no builds section": {settings: "{}", env: map[string]string{"A": "1"}, want: object{
			"builds": object{"kanikoImage": "k", "env": object{"A": "1"}},
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := withBuilds([]byte(tc.settings), "k", tc.env)
			if err != nil {
				t.Fatal(err)
			}
			got := object{}
			if err := yaml.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("withBuilds (-want +got):\n%s", diff)
			}
		})
	}
}

// What the local configuration names must be what the demo makes.
func TestLocalConfigurationFits(t *testing.T) {
	t.Parallel()
	settings, err := os.ReadFile("../../config/local/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	settings, err = withBuilds(settings, "kaniko", nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, func(name string) string { return map[string]string{"BUILDER_IMAGE": "b"}[name] })
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(cfg.ObjectStore.Endpoint)
	if err != nil || !slices.Contains(storeHosts(), host) {
		t.Errorf("the certificate of the object store is not for %s", cfg.ObjectStore.Endpoint)
	}
	if cfg.Registry.Host != cluster.RegistryHost {
		t.Errorf("the registry is %s, and the login for %s", cfg.Registry.Host, cluster.RegistryHost)
	}
	made := map[client.ObjectKey]bool{}
	for _, part := range []string{partStore, partRegistry} {
		for _, key := range secretKeys(part) {
			made[key] = true
		}
	}
	for _, key := range []client.ObjectKey{
		{Namespace: cfg.Gateway.Namespace, Name: cfg.Functions.ImagePullSecretName},
		{Namespace: cfg.Builds.Namespace, Name: cfg.Builds.ImagePullSecretName},
		{Namespace: cfg.Builds.Namespace, Name: cfg.Registry.PushSecretName},
		{Namespace: cfg.Builds.Namespace, Name: cfg.ObjectStore.SecretName},
	} {
		if !made[key] {
			t.Errorf("the configuration names Secret %s, which nobody makes", key)
		}
	}
}

func TestSamplesAreThere(t *testing.T) {
	t.Parallel()
	for _, s := range sampleStories() {
		fn, err := readFunction("../../config/samples/" + s.file)
		if err != nil {
			t.Fatal(err)
		}
		if fn.Namespace != demoNamespace || fn.Spec.Source.Inline == nil {
			t.Errorf("%s is not an inline function of namespace %s", s.file, demoNamespace)
		}
	}
}

func TestPrintSummary(t *testing.T) {
	t.Parallel()
	out := &strings.Builder{}
	printSummary(out, 3*time.Second, []*story{
		{url: "http://x/fn/default/a", answer: "yes", untilReady: time.Second, calls: 1500 * time.Microsecond},
		{},
	})
	for _, want := range []string{"ready in 3.0 s", "http://x/fn/default/a", "apply to ready 1.0 s, call 2 ms", "yes"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary does not tell %q:\n%s", want, out)
		}
	}
}
