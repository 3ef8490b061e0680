// SPDX-License-Identifier: Apache-2.0

package git

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/naeel/sless/internal/git/gittest"
	"github.com/naeel/sless/internal/git/report"
)

// randomText does not compress.
func randomText(n int) string {
	data := make([]byte, n*3/4)
	_, _ = rand.Read(data) // It never fails.
	return base64.StdEncoding.EncodeToString(data)
}

// startTLS runs a server whose certificate nobody knows, and which says nothing about clients that turn away.
func startTLS(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func TestFetchWithToken(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.http.Protect("git", token)
	good := Credentials{Password: token}
	fetched, files, err := fetchFiles(t, Request{URL: s.url, Credentials: good})
	if err != nil || fetched.Commit != s.second || len(files) != 3 {
		t.Fatalf("got %+v, %v", fetched, err)
	}
	tests := map[string]struct {
		credentials Credentials
		wantWord    string
	}{
		"none":       {wantWord: "name a Secret"},
		"wrong":      {credentials: Credentials{Password: "wrong-" + token}, wantWord: "check the Secret"},
		"other user": {credentials: Credentials{Username: "eve", Password: token}, wantWord: "check the Secret"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := fetchFiles(t, Request{URL: s.url, Credentials: tc.credentials})
			wantFault(t, err, report.AuthFailed, "spec.source.git.secretName", tc.wantWord)
		})
	}
}

func TestFetchByTLS(t *testing.T) {
	t.Parallel()
	s := serve(t)
	secure := startTLS(t, s.http)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if _, _, err := fetchFiles(t, Request{URL: secure.URL + "/shop.git", Authorities: authority}); err != nil {
		t.Error(err)
	}
	other := strings.Replace(secure.URL, "127.0.0.1", "localhost", 1)
	_, _, err := fetchFiles(t, Request{URL: other + "/shop.git", Authorities: authority})
	wantFault(t, err, report.TLSFailed, "localhost")
}

func TestCredentialsStayWithTheirServer(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var leaks, visits atomic.Int64
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visits.Add(1)
		if r.Header.Get("Authorization") != "" || strings.Contains(r.URL.String(), token) {
			leaks.Add(1)
		}
		s.http.ServeHTTP(w, r)
	}))
	t.Cleanup(foreign.Close)
	redirect := func(to string, statusCode int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to+r.URL.RequestURI(), statusCode)
		}))
		t.Cleanup(server.Close)
		return server.URL + "/shop.git"
	}
	credentials := Credentials{Password: token}
	for _, status := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect} {
		_, _, err := fetchFiles(t, Request{URL: redirect(foreign.URL, status), Credentials: credentials})
		wantFault(t, err, report.Redirected, foreign.URL, "spec.source.git.url")
	}
	if visits.Load() != 0 {
		t.Errorf("the foreign server was asked %d times", visits.Load())
	}
	// Without credentials there is nothing to lose.
	if _, _, err := fetchFiles(t, Request{URL: redirect(foreign.URL, http.StatusFound)}); err != nil {
		t.Errorf("a public repository that moved: %v", err)
	}
	// On the same server they go along.
	s.http.Protect("git", token)
	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/old/") {
			http.Redirect(w, r, strings.TrimPrefix(r.URL.RequestURI(), "/old"), http.StatusFound)
			return
		}
		s.http.ServeHTTP(w, r)
	}))
	t.Cleanup(moved.Close)
	if _, _, err := fetchFiles(t, Request{URL: moved.URL + "/old/shop.git", Credentials: credentials}); err != nil {
		t.Errorf("a redirect on the same server: %v", err)
	}
	if leaks.Load() != 0 {
		t.Errorf("the credentials were sent to another server %d times", leaks.Load())
	}
}

func TestFetchBySSH(t *testing.T) {
	t.Parallel()
	s := serve(t)
	server := gittest.StartSSH(t, "127.0.0.1:0", s.root, "")
	locked := gittest.StartSSH(t, "127.0.0.1:0", s.root, "pass")
	identity, _ := gittest.Key(t, "")
	other := gittest.StartSSH(t, "127.0.0.1:0", s.root, "")
	wrongKey := []byte(strings.Replace(string(other.KnownHosts), hostOf(other), hostOf(server), 1))
	tests := map[string]struct {
		url         string
		credentials Credentials
		wantReason  string
		wantWords   []string
	}{
		"works": {
			url: server.URL("shop.git"), credentials: Credentials{Identity: server.Identity, KnownHosts: server.KnownHosts},
		},
		"locked key": {
			url:         locked.URL("shop.git"),
			credentials: Credentials{Identity: locked.Identity, KnownHosts: locked.KnownHosts, Password: "pass"},
		},
		"locked key, wrong password": {
			url:         locked.URL("shop.git"),
			credentials: Credentials{Identity: locked.Identity, KnownHosts: locked.KnownHosts, Password: token},
			wantReason:  report.SecretInvalid, wantWords: []string{"identity", "password"},
		},
		"no known hosts": {
			url: server.URL("shop.git"), credentials: Credentials{Identity: server.Identity},
			wantReason: report.SecretInvalid, wantWords: []string{"known_hosts"},
		},
		"known hosts are none": {
			url: server.URL("shop.git"), credentials: Credentials{Identity: server.Identity, KnownHosts: []byte("x")},
			wantReason: report.SecretInvalid, wantWords: []string{"known_hosts"},
		},
		"identity is none": {
			url: server.URL("shop.git"), credentials: Credentials{Identity: []byte("x"), KnownHosts: server.KnownHosts},
			wantReason: report.SecretInvalid, wantWords: []string{"identity"},
		},
		"unknown host": {
			url: server.URL("shop.git"), credentials: Credentials{Identity: server.Identity, KnownHosts: other.KnownHosts},
			wantReason: report.HostKeyRefused, wantWords: []string{"ssh-keyscan"},
		},
		"other host key": {
			url: server.URL("shop.git"), credentials: Credentials{Identity: server.Identity, KnownHosts: wrongKey},
			wantReason: report.HostKeyRefused, wantWords: []string{"another key"},
		},
		"unknown user": {
			url: server.URL("shop.git"), credentials: Credentials{Identity: identity, KnownHosts: server.KnownHosts},
			wantReason: report.AuthFailed, wantWords: []string{"SSH key"},
		},
		"no repository": {
			url: server.URL("none.git"), credentials: Credentials{Identity: server.Identity, KnownHosts: server.KnownHosts},
			wantReason: report.RepositoryNotFound, wantWords: []string{"spec.source.git.url"},
		},
		"nobody there": {
			url:         "ssh://git@127.0.0.1:1/shop.git",
			credentials: Credentials{Identity: server.Identity, KnownHosts: server.KnownHosts},
			wantReason:  report.Unreachable, wantWords: []string{"127.0.0.1:1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fetched, files, err := fetchFiles(t, Request{URL: tc.url, Revision: "main", Credentials: tc.credentials})
			if tc.wantReason != "" {
				wantFault(t, err, tc.wantReason, tc.wantWords...)
				return
			}
			if err != nil || fetched.Commit != s.second || len(files) != 3 {
				t.Errorf("got %+v, %v", fetched, err)
			}
		})
	}
}

// hostOf is how known hosts name a server.
func hostOf(s *gittest.SSH) string {
	host, _, _ := strings.Cut(string(s.KnownHosts), " ")
	return host
}
