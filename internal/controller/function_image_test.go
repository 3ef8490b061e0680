// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
)

func TestForeignRepository(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		host, ref string
		want      bool
	}{
		"own":                         {"registry:5000", "registry:5000/sless-shop-cart:v1", false},
		"another namespace's":         {"registry:5000", "registry:5000/sless-bank-safe:v1", true},
		"its dependencies":            {"registry:5000", "registry:5000/sless-bank-deps:v1", true},
		"namespace that begins alike": {"registry:5000", "registry:5000/sless-shopping-cart:v1", true},
		"a runtime":                   {"registry:5000", "registry:5000/sless-runtime-nodejs20:v1", false},
		"not made by sless":           {"registry:5000", "registry:5000/team/app:v1", false},
		"another registry":            {"registry:5000", "elsewhere:5000/sless-bank-safe:v1", false},
		"docker hub, short name":      {"docker.io/acme", "acme/sless-bank-safe:v1", true},
		"docker hub, own":             {"docker.io/acme", "index.docker.io/acme/sless-shop-cart:v1", false},
		"another team on the hub":     {"docker.io/acme", "docker.io/other/sless-bank-safe:v1", false},
	}
	for title, tc := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			ref, err := name.ParseReference(tc.ref)
			if err != nil {
				t.Fatal(err)
			}
			if got := foreignRepository(tc.host, "shop", ref.Context()); got != tc.want {
				t.Errorf("foreignRepository(%s) = %v, want %v", tc.ref, got, tc.want)
			}
		})
	}
}
