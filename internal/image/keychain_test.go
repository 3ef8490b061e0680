// SPDX-License-Identifier: Apache-2.0

package image

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const secret = "a-secret-that-nobody-may-see"

func TestKeychain(t *testing.T) {
	t.Parallel()
	keychain, err := KeychainFromJSON([]byte(`{"auths": {
		"registry.example.com": {"username": "all", "password": "p"},
		"registry.example.com/team": {"username": "team", "password": "p"},
		"https://plain.example.com:5000/v2/": {"auth": "dXNlcjpwYXNz"},
		"https://index.docker.io/v1/": {"username": "hub", "password": "p"},
		"token.example.com": {"identitytoken": "t"}
	}, "credsStore": "ignored"}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]authn.AuthConfig{
		"registry.example.com/a":           {Username: "all", Password: "p"},
		"registry.example.com/team":        {Username: "team", Password: "p"},
		"registry.example.com/team/a/b":    {Username: "team", Password: "p"},
		"registry.example.com/teams/a":     {Username: "all", Password: "p"},
		"registry.example.com:5000/team/a": {},
		"plain.example.com:5000/a":         {Username: "user", Password: "pass"},
		"docker.io/team/a":                 {Username: "hub", Password: "p"},
		"team/a":                           {Username: "hub", Password: "p"},
		"token.example.com/a":              {IdentityToken: "t"},
		"other.example.com/a":              {},
	}
	for repo, want := range tests {
		t.Run(repo, func(t *testing.T) {
			t.Parallel()
			repository, err := name.NewRepository(repo)
			if err != nil {
				t.Fatal(err)
			}
			auth, err := keychain.Resolve(repository)
			if err != nil {
				t.Fatal(err)
			}
			got, err := auth.Authorization()
			if err != nil {
				t.Fatal(err)
			}
			got.Auth = ""
			if *got != want {
				t.Errorf("got user %q, want %q", got.Username, want.Username)
			}
		})
	}
}

func TestKeychainErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.json")
	contents := []string{`{"auths": {"a": {"auth": "` + secret + `"}}}`, `{"auths": "` + secret + `"`, secret}
	for _, content := range contents {
		if _, err := KeychainFromJSON([]byte(content)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("got error %v", err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		repository, err := name.NewRepository("registry.example.com/a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := KeychainFromFile(file).Resolve(repository); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("got error %v", err)
		}
	}
}

// Credentials are taken from the file as it is at the moment of the call.
func TestCredentials(t *testing.T) {
	t.Parallel()
	inner, _ := startRegistry(t)
	forward := failFirst(t, inner, nil, nil)
	host, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "sless" || password != secret {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	file := filepath.Join(t.TempDir(), "config.json")
	r := newRegistry(t, Config{Insecure: []string{host}, Keychain: KeychainFromFile(file), Backoff: quick})

	tests := []struct {
		name, content, wantError string
	}{
		{name: "no file", wantError: "registry credentials"},
		{name: "none", content: `{}`, wantError: "401"},
		{
			name: "wrong", content: `{"auths":{"` + host + `":{"username":"sless","password":"` + secret + `!"}}}`,
			wantError: "401",
		},
		{name: "right", content: `{"auths":{"` + host + `":{"username":"sless","password":"` + secret + `"}}}`},
	}
	for _, tc := range tests {
		if tc.content != "" {
			if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := r.Exists(t.Context(), host+"/fn:1")
		switch {
		case tc.wantError == "" && err != nil:
			t.Errorf("%s: got error %v", tc.name, err)
		case tc.wantError != "" && (err == nil || IsUnavailable(err) || !strings.Contains(err.Error(), tc.wantError)):
			t.Errorf("%s: got error %v, want %s", tc.name, err, tc.wantError)
		case err != nil && strings.Contains(err.Error(), secret):
			t.Errorf("%s: error %v shows the secret", tc.name, err)
		}
	}
	base := pushImage(t, r, host+"/base:v1", makeBase(t, types.DockerManifestSchema2))
	req := AppendRequest{Base: base, Target: host + "/fn:1", Layer: sampleLayer(t)}
	if _, err := r.Append(t.Context(), req); err != nil {
		t.Error(err)
	}
}
