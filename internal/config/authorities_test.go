// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAuthorities(t *testing.T) {
	t.Parallel()
	file := func(t *testing.T, text string) string { return write(t, text) }
	tests := map[string]struct {
		registry, store string
		want            map[string]string
		wantErr         string
	}{
		"none":                      {},
		"registry":                  {registry: "R", want: map[string]string{RegistryAuthority: "R"}},
		"both":                      {registry: "R", store: "S", want: map[string]string{RegistryAuthority: "R", ObjectStoreAuthority: "S"}},
		"too large for a ConfigMap": {store: strings.Repeat("#", maxFileBytes+1), wantErr: "larger than"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := &Config{}
			if tc.registry != "" {
				cfg.Registry.CAFile = file(t, tc.registry)
			}
			if tc.store != "" {
				cfg.ObjectStore.CAFile = file(t, tc.store)
			}
			got, err := cfg.Authorities()
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error is %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Authorities (-want +got):\n%s", diff)
			}
			if err != nil {
				return
			}
			names := slices.Sorted(maps.Keys(got))
			if diff := cmp.Diff(names, cfg.AuthorityNames(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("AuthorityNames (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := (&Config{Registry: Registry{CAFile: "/nowhere"}}).Authorities(); err == nil {
		t.Error("Authorities of a missing file succeeded")
	}
}
