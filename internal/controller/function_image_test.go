// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/runtimes"
)

func TestPlatformRepository(t *testing.T) {
	t.Parallel()
	catalogue, err := runtimes.Load()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		host, ref string
		want      bool
	}{
		"code":                     {"registry:5000", "registry:5000/sless-shop-cart:v1", true},
		"dependencies":             {"registry:5000", "registry:5000/sless-bank-deps:v1", true},
		"a runtime":                {"registry:5000", "registry:5000/sless-runtime-nodejs20:v1", false},
		"a namespace like runtime": {"registry:5000", "registry:5000/sless-runtime-cart:v1", true},
		"not made by sless":        {"registry:5000", "registry:5000/team/app:v1", false},
		"another registry":         {"registry:5000", "elsewhere:5000/sless-bank-safe:v1", false},
		"docker hub, short name":   {"docker.io/acme", "acme/sless-bank-safe:v1", true},
		"docker hub, long name":    {"docker.io/acme", "index.docker.io/acme/sless-shop-cart:v1", true},
		"host in other letters":    {"registry.example.com", "REGISTRY.example.com/sless-bank-safe:v1", true},
		"another team on the hub":  {"docker.io/acme", "docker.io/other/sless-bank-safe:v1", false},
	}
	for title, tc := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			ref, err := name.ParseReference(tc.ref)
			if err != nil {
				t.Fatal(err)
			}
			r := &FunctionReconciler{Catalogue: catalogue, Config: &config.Config{
				Registry: config.Registry{Host: tc.host, RuntimeHost: tc.host},
			}}
			if got := r.platformRepository(ref.Context()); got != tc.want {
				t.Errorf("platformRepository(%s) = %v, want %v", tc.ref, got, tc.want)
			}
		})
	}
}
