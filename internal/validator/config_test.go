// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestConfigFromEnv(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	prompt, blank := file("prompt", "Look for poems.\n"), file("blank", " \n")
	large := file("large", strings.Repeat("x", maxPromptBytes+1))
	least := Config{
		Enabled: true, Endpoint: "https://api.example.com/v1", Timeout: 15 * time.Second, Model: DefaultModel, Prompt: DefaultPrompt,
		FailurePolicy: Ignore, MaxParallel: DefaultMaxParallel,
	}
	tests := map[string]struct {
		env       map[string]string
		want      func(*Config)
		wantError string
	}{
		"off by default": {env: map[string]string{"LLM_ENDPOINT": "https://api.example.com/v1"}, want: func(c *Config) { *c = Config{} }},
		"off, the rest is wrong": {
			env: map[string]string{"LLM_ENABLED": "false", "LLM_TIMEOUT": "soon"}, want: func(c *Config) { *c = Config{} },
		},
		"least": {env: map[string]string{"LLM_ENABLED": "true", "LLM_ENDPOINT": "https://api.example.com/v1"}, want: func(*Config) {}},
		"all": {
			env: map[string]string{
				"LLM_ENABLED": "1", "LLM_ENDPOINT": " http://model.ai.svc:8000/v1/ ", "LLM_API_KEY": "sk-1\n", "LLM_TIMEOUT": "1m30s",
				"LLM_MODEL": "llama", "LLM_PROMPT_FILE": prompt, "LLM_FAILURE_POLICY": "Fail",
				"LLM_SKIP_NAMESPACES": "ci, tools,,\nops", "LLM_MAX_PARALLEL": "9", "LLM_CA_FILE": "/ca.crt",
			},
			want: func(c *Config) {
				*c = Config{
					Enabled: true, Endpoint: "http://model.ai.svc:8000/v1", APIKey: "sk-1", Timeout: 90 * time.Second, Model: "llama",
					Prompt: "Look for poems.", FailurePolicy: Fail, SkipNamespaces: []string{"ci", "tools", "ops"}, MaxParallel: 9,
					CAFile: "/ca.crt",
				}
			},
		},
		"whole path, seconds": {
			env:  map[string]string{"LLM_ENABLED": "true", "LLM_ENDPOINT": "https://api.example.com/v1/chat/completions", "LLM_TIMEOUT": "20"},
			want: func(c *Config) { c.Timeout = 20 * time.Second },
		},
		"enabled is no bool":   {env: map[string]string{"LLM_ENABLED": "please"}, wantError: "LLM_ENABLED"},
		"no endpoint":          {env: map[string]string{"LLM_ENABLED": "true"}, wantError: "LLM_ENDPOINT must be set"},
		"endpoint of a file":   {env: map[string]string{"LLM_ENABLED": "true", "LLM_ENDPOINT": "file:///x"}, wantError: "https://"},
		"endpoint is no URL":   {env: map[string]string{"LLM_ENABLED": "true", "LLM_ENDPOINT": "https://sk-secret\x7f/"}, wantError: "is no URL"},
		"key in the user name": {env: map[string]string{"LLM_ENABLED": "true", "LLM_ENDPOINT": "https://sk-secret@x"}, wantError: "LLM_API_KEY"},
		"key in the query":     {env: map[string]string{"LLM_ENABLED": "true", "LLM_ENDPOINT": "https://x?key=sk-secret"}, wantError: "LLM_API_KEY"},
		"key with a line":      {env: map[string]string{"LLM_ENABLED": "true", "LLM_API_KEY": "sk-secret\nx"}, wantError: "LLM_API_KEY"},
		"timeout":              {env: map[string]string{"LLM_ENABLED": "true", "LLM_TIMEOUT": "soon"}, wantError: "LLM_TIMEOUT"},
		"timeout too long":     {env: map[string]string{"LLM_ENABLED": "true", "LLM_TIMEOUT": "1h"}, wantError: "LLM_TIMEOUT"},
		"policy":               {env: map[string]string{"LLM_ENABLED": "true", "LLM_FAILURE_POLICY": "fail"}, wantError: "Ignore or Fail"},
		"parallel":             {env: map[string]string{"LLM_ENABLED": "true", "LLM_MAX_PARALLEL": "0"}, wantError: "LLM_MAX_PARALLEL"},
		"no prompt file":       {env: map[string]string{"LLM_ENABLED": "true", "LLM_PROMPT_FILE": "/nowhere"}, wantError: "LLM_PROMPT_FILE"},
		"blank prompt file":    {env: map[string]string{"LLM_ENABLED": "true", "LLM_PROMPT_FILE": blank}, wantError: "is empty"},
		"large prompt file":    {env: map[string]string{"LLM_ENABLED": "true", "LLM_PROMPT_FILE": large}, wantError: "is larger than"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ConfigFromEnv(func(name string) string { return tc.env[name] })
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) || strings.Contains(err.Error(), "sk-secret") {
					t.Errorf("got error %v, want one with %q and without the key", err, tc.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := least
			tc.want(&want)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
