// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/naeel/sless/internal/gateway/api"
)

func TestConnectReview(t *testing.T) {
	t.Parallel()
	on := map[string]string{"LLM_ENABLED": "true", "LLM_ENDPOINT": "http://model:8000/v1", "LLM_API_KEY": "sk-secret"}
	tests := map[string]struct {
		env         map[string]string
		unavailable string
		wantOn      bool
		wantError   string
	}{
		"off":                 {},
		"on":                  {env: on, wantOn: true},
		"the API is not":      {env: on, unavailable: "no issuer"},
		"half a config":       {env: map[string]string{"LLM_ENABLED": "true", "LLM_API_KEY": "sk-secret"}, wantError: "LLM_ENDPOINT must be set"},
		"off with a bad rest": {env: map[string]string{"LLM_TIMEOUT": "x"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := api.Config{Unavailable: tc.unavailable}
			start, err := connectReview(&cfg, &rest.Config{Host: "http://127.0.0.1:1"}, prometheus.NewRegistry(),
				func(name string) string { return tc.env[name] })
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) || strings.Contains(err.Error(), "sk-secret") {
					t.Errorf("got error %v, want %q", err, tc.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := cfg.Review.Enabled(); got != tc.wantOn || (cfg.Events != nil) != tc.wantOn {
				t.Errorf("enabled %v, events %v, want %v", got, cfg.Events != nil, tc.wantOn)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := start(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
