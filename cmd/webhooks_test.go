// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWebhookNames holds the defaults of the flags against the manifests, which no name in Go reaches: the roles are for
// these names alone.
func TestWebhookNames(t *testing.T) {
	t.Parallel()
	opts := webhookOptions{}
	opts.bindFlags(flag.NewFlagSet("", flag.PanicOnError))
	const prefix = "sless-" // of config/default
	for file, names := range map[string][]string{
		"role.yaml":      {opts.names.Secret, opts.names.Mutating, opts.names.Validating},
		"manifests.yaml": {strings.TrimPrefix(opts.names.Mutating, prefix), strings.TrimPrefix(opts.names.Validating, prefix)},
		"service.yaml":   {strings.TrimPrefix(opts.names.Service, prefix)},
	} {
		data, err := os.ReadFile(filepath.Join("..", "config", "webhook", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.Contains(string(data), name) {
				t.Errorf("config/webhook/%s does not name %s", file, name)
			}
		}
	}
	if opts.enabled || !opts.rotate {
		t.Errorf("enabled is %v and rotate %v, want false and true", opts.enabled, opts.rotate)
	}
}

func TestControllerNames(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		flag      string
		want      []string
		wantLease string
	}{
		"all, in any order": {flag: "trigger,functionjob,function", want: []string{"trigger", "functionjob", "function"}, wantLease: "manager.sless.io"},
		"some":              {flag: "trigger,function", want: []string{"trigger", "function"}, wantLease: "function.trigger.manager.sless.io"},
		"none":              {flag: "none", wantLease: "webhooks.manager.sless.io"},
		"empty":             {wantLease: "webhooks.manager.sless.io"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, controllerNames(tc.flag)); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if got := leaderElectionID(tc.flag); got != tc.wantLease {
				t.Errorf("lease %q, want %q", got, tc.wantLease)
			}
		})
	}
}
