// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const complete = `
registry:
  host: registry.example.com/team
objectStore:
  endpoint: s3.example.com
builds:
  kanikoImage: kaniko:v1
  builderImage: sless:v1
gateway:
  externalURL: https://fn.example.com
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	t.Parallel()
	base := Config{
		Registry:    Registry{Host: "registry.example.com/team", RuntimeHost: "registry.example.com/team"},
		ObjectStore: ObjectStore{Endpoint: "s3.example.com", Region: "us-east-1", Bucket: "sless", SecretName: "sless-object-store"},
		Builds:      Builds{Namespace: "sless-builds", KanikoImage: "kaniko:v1", BuilderImage: "sless:v1", MaxConcurrent: 3},
		Git: Git{
			Interval: &metav1.Duration{Duration: 5 * time.Minute}, TimeoutSeconds: 120, MaxBytes: 100 << 20, MaxConcurrent: 4,
		},
		Functions: Functions{MaxBodyBytes: 32 << 20},
		Gateway: Gateway{
			Namespace: "sless-system", ServiceName: "sless-gateway", ServicePort: 80, ExternalURL: "https://fn.example.com",
		},
		Cleanup: Cleanup{
			Enabled: new(true), Grace: metav1.Duration{Duration: 24 * time.Hour}, Interval: metav1.Duration{Duration: time.Hour},
		},
	}
	tests := map[string]struct {
		text string
		env  map[string]string
		want func(*Config)
	}{
		"defaults": {text: complete, want: func(*Config) {}},
		"environment wins": {
			text: complete,
			env:  map[string]string{"REGISTRY_HOST": "other:5000", "EXTERNAL_URL": "http://localhost", "FUNCTION_DOMAIN": "fn.local"},
			want: func(c *Config) {
				c.Registry.Host, c.Registry.RuntimeHost = "other:5000", "other:5000"
				c.Gateway.ExternalURL, c.Gateway.FunctionDomain = "http://localhost", "fn.local"
			},
		},
		"a domain instead of an address": {
			text: strings.Replace(complete, "externalURL: https://fn.example.com", "functionDomain: fn.example.com", 1),
			want: func(c *Config) { c.Gateway.ExternalURL, c.Gateway.FunctionDomain = "", "fn.example.com" },
		},
		"routes of a Gateway": {
			text: complete + "  hostScheme: http\n  httpRoute: {parentRefs: [{name: public}]}\n",
			want: func(c *Config) {
				c.Gateway.HostScheme = "http"
				c.Gateway.HTTPRoute = &HTTPRoute{ParentRefs: []ParentRef{{Name: "public"}}, RequestTimeout: "0s"}
			},
		},
		"routes without a time": {
			text: complete + "  httpRoute: {parentRefs: [{name: public}], requestTimeout: omit}\n",
			want: func(c *Config) {
				c.Gateway.HTTPRoute = &HTTPRoute{ParentRefs: []ParentRef{{Name: "public"}}, RequestTimeout: OmitTimeout}
			},
		},
		"set values stay": {
			text: strings.Replace(complete, "builds:", "builds:\n  maxConcurrent: 9\n  namespace: b", 1),
			want: func(c *Config) { c.Builds.MaxConcurrent, c.Builds.Namespace = 9, "b" },
		},
		"repositories are never polled": {
			text: complete + "git:\n  interval: 0s\n  maxConcurrent: 1\n",
			want: func(c *Config) { c.Git.Interval, c.Git.MaxConcurrent = &metav1.Duration{}, 1 },
		},
		"clean-up off": {
			text: complete + "cleanup:\n  enabled: false\n  grace: 90m\n  interval: 30s\n",
			want: func(c *Config) {
				c.Cleanup = Cleanup{
					Enabled: new(false), Grace: metav1.Duration{Duration: 90 * time.Minute}, Interval: metav1.Duration{Duration: 30 * time.Second},
				}
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Load(write(t, tc.text), func(k string) string { return tc.env[k] })
			if err != nil {
				t.Fatal(err)
			}
			want := base
			tc.want(&want)
			if diff := cmp.Diff(&want, got, cmpopts.IgnoreTypes(corev1.ResourceRequirements{}, Scaling{})); diff != "" {
				t.Errorf("Load (-want +got):\n%s", diff)
			}
			if got.Functions.Resources.Limits.Memory().String() != "512Mi" {
				t.Errorf("default memory limit is %s", got.Functions.Resources.Limits.Memory())
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []string
	}{
		"git out of bounds": {
			text: complete + "git: {interval: 9s, timeoutSeconds: 1, maxBytes: -1, maxConcurrent: -1}\n",
			want: []string{"git.interval", "git.timeoutSeconds", "git.maxBytes", "git.maxConcurrent"},
		},
		"unknown field":            {text: complete + "\ngatewey: {}", want: []string{"gatewey"}},
		"empty file names all":     {text: "{}", want: []string{"registry.host", "objectStore.endpoint", "builds.kanikoImage", "gateway.externalURL"}},
		"negative build limit":     {text: strings.Replace(complete, "builds:", "builds:\n  maxConcurrent: -1", 1), want: []string{"maxConcurrent"}},
		"clean-up at once":         {text: complete + "cleanup: {grace: 1s, interval: 1ms}", want: []string{"cleanup.grace", "cleanup.interval"}},
		"no address":               {text: strings.Replace(complete, "https://fn.example.com", "fn.example.com", 1), want: []string{"externalURL must be like"}},
		"no domain":                {text: complete + "  functionDomain: https://x", want: []string{"functionDomain must be"}},
		"routes without a Gateway": {text: complete + "  httpRoute: {}", want: []string{"parentRefs must name"}},
		"a time that no route has": {text: complete + "  httpRoute: {parentRefs: [{name: x}], requestTimeout: -1s}", want: []string{"requestTimeout must be like"}},
		"a scheme that is none":    {text: complete + "  hostScheme: ftp", want: []string{"hostScheme must be"}},
		"a Gateway without a name": {text: complete + "  httpRoute: {parentRefs: [{namespace: x}]}", want: []string{"parentRefs[0].name"}},
		"larger than one megabyte": {text: strings.Repeat("#", maxFileBytes+1), want: []string{"larger than"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(write(t, tc.text), func(string) string { return "" })
			if err == nil {
				t.Fatal("Load accepted it")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not name %q", err, part)
				}
			}
		})
	}
}

func TestLoadMissingFile(t *testing.T) {
	t.Parallel()
	if _, err := Load(filepath.Join(t.TempDir(), "none"), os.Getenv); err == nil {
		t.Error("Load of a missing file succeeded")
	}
}
