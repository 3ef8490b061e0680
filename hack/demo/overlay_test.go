// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestOverlayFor(t *testing.T) {
	t.Parallel()
	data, err := overlayFor("sless.local/sless:abc")
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
	if !strings.Contains(got.Patches[0].Patch, `value: "sless.local/sless:abc"`) {
		t.Errorf("the steps of builds do not run in the image that was made: %s", got.Patches[0].Patch)
	}
	if _, err := overlayFor("no-tag"); err == nil {
		t.Error("an image without a tag is taken")
	}
}

func TestWithBuildEnv(t *testing.T) {
	t.Parallel()
	settings := []byte("registry:\n  host: r\nbuilds:\n  kanikoImage: k\n")
	tests := map[string]struct {
		settings []byte
		env      map[string]string
		want     map[string]any
	}{
		"nothing to add": {settings: settings, want: map[string]any{
			"registry": map[string]any{"host": "r"}, "builds": map[string]any{"kanikoImage": "k"},
		}},
		"added beside the rest": {settings: settings, env: map[string]string{"A": "1"}, want: map[string]any{
			"registry": map[string]any{"host": "r"},
			"builds":   map[string]any{"kanikoImage": "k", "env": map[string]any{"A": "1"}},
		}},
		"no builds section": {settings: []byte("{}"), env: map[string]string{"A": "1"}, want: map[string]any{
			"builds": map[string]any{"env": map[string]any{"A": "1"}},
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := withBuildEnv(tc.settings, tc.env)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]any{}
			if err := yaml.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("withBuildEnv (-want +got):\n%s", diff)
			}
		})
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
