// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLoadSharedAgreesWithLoad has one file for both programs.
func TestLoadSharedAgreesWithLoad(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"defaults": complete,
		"settings": complete + "cleanup: {grace: 2h}\nscaling: {startupTimeoutSeconds: 5}\n",
		// What the manager needs besides is in its environment.
		"the rest is elsewhere": "objectStore: {endpoint: s3.example.com, bucket: other}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := write(t, text)
			env := map[string]string{
				"REGISTRY_HOST": "r", "EXTERNAL_URL": "http://localhost", "KANIKO_IMAGE": "kaniko:v1", "BUILDER_IMAGE": "sless:v1",
			}
			all, err := Load(path, func(name string) string { return env[name] })
			if err != nil {
				t.Fatal(err)
			}
			got, err := LoadShared(path)
			if err != nil {
				t.Fatal(err)
			}
			want := &Shared{ObjectStore: all.ObjectStore, Cleanup: all.Cleanup, Scaling: all.Scaling}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLoadSharedOfTheManifests reads the files that are mounted into the gateway's pod.
func TestLoadSharedOfTheManifests(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"manager", "local"} {
		got, err := LoadShared(filepath.Join("..", "..", "config", folder, "config.yaml"))
		if err != nil || got.ObjectStore.Endpoint == "" {
			t.Errorf("%s: %+v, %v", folder, got, err)
		}
	}
}

func TestLoadSharedRefuses(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"unknown field":   "builds: {unknown: 1}",
		"scaling.scaler":  "scaling: {scaler: host}",
		"cleanup.grace":   "cleanup: {grace: 1s}",
		"larger than":     strings.Repeat("#", maxFileBytes+1),
		"cannot unmarsha": "scaling: 1",
	} {
		if _, err := LoadShared(write(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := LoadShared(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if got, err := LoadShared(""); err != nil || got.ObjectStore.Bucket != "sless" {
		t.Errorf("no file: %+v, %v", got, err)
	}
}
