// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/naeel/sless/internal/gateway"
	"github.com/naeel/sless/internal/gateway/api"
	"github.com/naeel/sless/internal/gateway/auth"
	"github.com/naeel/sless/internal/objectstore"
)

const storeConfig = `
registry:
  host: registry.example.com
objectStore:
  endpoint: s3.example.com:9000
  pathStyle: true
  insecure: true
builds: {maxConcurrent: 5}
`

func noEnv(string) string { return "" }

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func parse(t *testing.T, getenv func(string) string, args ...string) *apiOptions {
	t.Helper()
	o := &apiOptions{}
	fs := flag.NewFlagSet("gateway", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	o.bind(fs, getenv)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestDefaultIsOff has no flags at all: there is no API port, and nothing is needed for it.
func TestDefaultIsOff(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--api-bind-address="}, {"--api-bind-address=0", "--config=/nowhere"}} {
		o := parse(t, noEnv, args...)
		serve, err := o.server(nil, gateway.Config{}, prometheus.NewRegistry(), noEnv)
		if serve != nil || err != nil {
			t.Errorf("%q: serves %v, %v", args, serve != nil, err)
		}
		if o.auth != authJWT {
			t.Errorf("%q: --auth=%s", args, o.auth)
		}
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	good := writeConfig(t, storeConfig)
	tokens := []string{"--issuer=https://i.example.com", "--audience=sless"}
	tests := map[string]struct {
		args            []string
		env             map[string]string
		wantVerifier    auth.Verifier
		wantUnavailable string
		wantError       string
	}{
		"signed":            {args: append(tokens, "--config="+good), wantVerifier: &auth.JWT{}},
		"signed, from env":  {args: []string{"--config=" + good}, env: map[string]string{"JWT_ISSUER": "i", "JWT_AUDIENCE": "a", "JWKS_URL": "https://i"}, wantVerifier: &auth.JWT{}},
		"unsigned":          {args: []string{"--auth=unsigned", "--config=" + good}, wantVerifier: &auth.Unsigned{}},
		"unsigned, by env":  {args: []string{"--config=" + good}, env: map[string]string{"AUTH": "unsigned"}, wantUnavailable: "--issuer and --audience"},
		"no issuer":         {args: []string{"--audience=sless", "--config=" + good}, wantUnavailable: "must set --issuer"},
		"no audience":       {args: []string{"--issuer=https://i", "--config=" + good}, wantUnavailable: "must set --audience"},
		"no store":          {args: tokens, wantUnavailable: "objectStore.endpoint"},
		"unsigned no store": {args: []string{"--auth=unsigned"}, wantUnavailable: "objectStore.endpoint"},
		"bad key set URL":   {args: append(tokens, "--config="+good, "--jwks-url=ftp://x"), wantError: "https URL"},
		"no config file":    {args: append(tokens, "--config=/nowhere"), wantError: "reading the configuration"},
		"half a credential": {args: append(tokens, "--config="+good), env: map[string]string{"AWS_ACCESS_KEY_ID": "x"}, wantError: "only one of"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			getenv := func(name string) string { return tc.env[name] }
			o := parse(t, getenv, append([]string{"--api-bind-address=:0"}, tc.args...)...)
			var cfg api.Config
			err := o.connect(&cfg, &rest.Config{Host: "http://127.0.0.1:1"}, getenv)
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) {
					t.Errorf("got %v, want %q", err, tc.wantError)
				}
				return
			}
			if err != nil || !strings.Contains(cfg.Unavailable, tc.wantUnavailable) {
				t.Errorf("got %v, unavailable %q", err, cfg.Unavailable)
			}
			if got, want := typeName(cfg.Verifier), typeName(tc.wantVerifier); got != want {
				t.Errorf("verifier %s, want %s", got, want)
			}
			if ready := cfg.Store != nil && cfg.Client != nil && cfg.Verifier != nil; ready == (cfg.Unavailable != "") {
				t.Errorf("ready %v, unavailable %q", ready, cfg.Unavailable)
			}
		})
	}
}

func TestLoadScaling(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]time.Duration{
		"":         time.Minute,
		"/nowhere": time.Minute,
		writeConfig(t, "scaling: {startupTimeoutSeconds: 30, scaler: 's:80'}"): 30 * time.Second,
	} {
		got, err := loadScaling(path)
		if got.StartupTimeout() != want || got.Interceptor == "" || err != nil {
			t.Errorf("%q: %+v, %v, want %s", path, got, err, want)
		}
	}
	for _, text := range []string{"scaling: 1", "scaling: {startupTimeoutSeconds: -1}", "scalling: {}"} {
		if _, err := loadScaling(writeConfig(t, text)); err == nil {
			t.Errorf("took %q", text)
		}
	}
}

func typeName(v auth.Verifier) string {
	switch v.(type) {
	case nil:
		return "none"
	case *auth.JWT:
		return "jwt"
	case *auth.Unsigned:
		return "unsigned"
	}
	return "other"
}

func TestServerRefuses(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--auth":        {"--auth=none"},
		"--max-uploads": {"--api-bind-address=:0", "--max-uploads=0"},
	} {
		_, err := parse(t, noEnv, args...).server(nil, gateway.Config{}, prometheus.NewRegistry(), noEnv)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestLoadObjectStore(t *testing.T) {
	t.Parallel()
	env := map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
	got, refreshAfter, err := loadObjectStore(writeConfig(t, storeConfig), func(name string) string { return env[name] })
	want := objectstore.Config{
		Endpoint: "s3.example.com:9000", Region: "us-east-1", Bucket: "sless", PathStyle: true, Insecure: true, AccessKey: "key", SecretKey: "secret",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if refreshAfter != 12*time.Hour {
		t.Errorf("without settings for the clean-up, stored code is refreshed after %s", refreshAfter)
	}
	for text, want := range map[string]time.Duration{"{grace: 2h}": time.Hour, "{grace: 2h, enabled: false}": 0} {
		_, got, err := loadObjectStore(writeConfig(t, storeConfig+"cleanup: "+text+"\n"), noEnv)
		if got != want || err != nil {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	for name, text := range map[string]string{
		"no YAML": "{", "wrong type": "objectStore: 1", "unknown field": "objectStore: {endpont: x}",
	} {
		if _, _, err := loadObjectStore(writeConfig(t, text), noEnv); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestNotConfiguredAnswers runs the port as the flags make it.
func TestNotConfiguredAnswers(t *testing.T) {
	t.Parallel()
	o := parse(t, noEnv, "--api-bind-address=127.0.0.1:0")
	var cfg api.Config
	if err := o.connect(&cfg, nil, noEnv); err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/namespaces/x/functions/y/upload", nil)
	r.Header.Set("Authorization", "Bearer x")
	api.New(cfg).ServeHTTP(rec, r)
	if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "must set --issuer and --audience") {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
	serve, err := o.server(nil, gateway.Config{}, prometheus.NewRegistry(), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the port ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the port did not end")
	}
}
