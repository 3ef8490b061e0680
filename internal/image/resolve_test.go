// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// failFirst gives a proxy to host that answers the first requests of each method with 503.
func failFirst(t *testing.T, host string, failing map[string]int, seen *[]string) http.Handler {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: host}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	var mu sync.Mutex
	left := map[string]int{}
	maps.Copy(left, failing)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		fail := left[r.Method] > 0
		if fail {
			left[r.Method]--
			*seen = append(*seen, r.Method)
		}
		mu.Unlock()
		if fail {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

func TestResolveExistsDelete(t *testing.T) {
	t.Parallel()
	for server, start := range registries {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			host, _ := start(t)
			r := newTestRegistry(t, host)
			byDigest := pushImage(t, r, host+"/fn:1", makeBase(t, types.OCIManifestSchema1))
			pushImage(t, r, host+"/fn:2", makeBase(t, types.OCIManifestSchema1))
			_, want, _ := strings.Cut(byDigest, "@")
			check := func(ref string, wantOK bool) {
				t.Helper()
				digest, ok, err := r.Exists(t.Context(), ref)
				if err != nil || ok != wantOK || ok && digest != want {
					t.Errorf("%s: got %q, %t, %v, want %t", ref, digest, ok, err, wantOK)
				}
			}
			check(host+"/fn:1", true)
			check(byDigest, true)
			check(host+"/fn:3", false)
			check(host+"/none:1", false)
			if _, err := r.Resolve(t.Context(), host+"/fn:3"); err == nil || IsUnavailable(err) ||
				!strings.Contains(err.Error(), host+"/fn:3") {
				t.Errorf("Resolve: got error %v", err)
			}
			for _, ref := range []string{host + "/fn:1", host + "/fn:1", host + "/none:1"} {
				if err := r.Delete(t.Context(), ref); err != nil {
					t.Error(err)
				}
			}
			check(host+"/fn:1", false)
			check(host+"/fn:2", true)
			check(byDigest, true)
			for range 2 {
				if err := r.Delete(t.Context(), byDigest); err != nil {
					t.Error(err)
				}
			}
			check(byDigest, false)
		})
	}
}

func TestResolveIndex(t *testing.T) {
	t.Parallel()
	host, _ := startRegistry(t)
	want := map[string]string{}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{"arm64", "amd64"} {
		img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch})
		if err != nil {
			t.Fatal(err)
		}
		digest, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		want[arch] = digest.String()
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	pushed := pushImage(t, newTestRegistry(t, host), host+"/multi:v1", index)
	for arch, digest := range want {
		r := newRegistry(t, Config{Insecure: []string{host}, Architecture: arch, Backoff: quick})
		for _, ref := range []string{host + "/multi:v1", pushed} {
			got, err := r.Resolve(t.Context(), ref)
			if err != nil || got != digest {
				t.Errorf("%s of %s: got %s, %v, want %s", arch, ref, got, err, digest)
			}
		}
	}
	r := newRegistry(t, Config{Insecure: []string{host}, Architecture: "riscv64", Backoff: quick})
	if _, err := r.Resolve(t.Context(), host+"/multi:v1"); err == nil || IsUnavailable(err) {
		t.Errorf("another architecture: got error %v", err)
	}
	// An index is also a base.
	got, err := newTestRegistry(t, host).Append(t.Context(),
		AppendRequest{Base: pushed, Target: host + "/fn:1", Layer: sampleLayer(t)})
	if err != nil {
		t.Fatal(err)
	}
	config, err := pullImage(t, newTestRegistry(t, host), host+"/fn@"+got).ConfigFile()
	if err != nil || config.Architecture != "amd64" {
		t.Errorf("got architecture %s, %v", config.Architecture, err)
	}
}

func TestResolveWithoutDigestHeader(t *testing.T) {
	t.Parallel()
	inner, _ := startRegistry(t)
	target := &url.URL{Scheme: "http", Host: inner}
	host, _ := serve(t, &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Docker-Content-Digest")
			return nil
		},
	})
	r := newRegistry(t, Config{Insecure: []string{host, inner}, Backoff: quick})
	_, want, _ := strings.Cut(pushImage(t, r, inner+"/fn:1", makeBase(t, types.DockerManifestSchema2)), "@")
	got, err := r.Resolve(t.Context(), host+"/fn:1")
	if err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestIsUnavailable(t *testing.T) {
	t.Parallel()
	tests := map[int]bool{
		http.StatusBadRequest: false, http.StatusUnauthorized: false, http.StatusForbidden: false, http.StatusNotFound: false,
		http.StatusRequestTimeout: true, http.StatusTooManyRequests: true, http.StatusInternalServerError: true,
		http.StatusNotImplemented: false, http.StatusBadGateway: true, http.StatusServiceUnavailable: true,
	}
	for status, want := range tests {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			host, counter := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					return
				}
				w.WriteHeader(status)
			}))
			_, err := newTestRegistry(t, host).Resolve(t.Context(), host+"/fn:1")
			if err == nil || IsUnavailable(err) != want || !strings.Contains(err.Error(), host+"/fn:1") {
				t.Errorf("error %v is taken for unavailable: %t", err, IsUnavailable(err))
			}
			if requests, _, _, _ := counter.take(); requests > 2*quick.Steps {
				t.Errorf("%d requests were made", requests)
			}
		})
	}
}

func TestIsUnavailableWithoutAnswer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	hanging, _ := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	abort, _ := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	tests := map[string]struct {
		ctx  context.Context
		host string
		want bool
	}{
		"refused":      {ctx: t.Context(), host: closed, want: true},
		"unknown name": {ctx: t.Context(), host: "nobody.invalid:5000", want: true},
		"hangs up":     {ctx: t.Context(), host: abort, want: true},
		"canceled":     {ctx: canceled, host: hanging},
		"deadline":     {ctx: expired, host: hanging, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := newTestRegistry(t, tc.host).Resolve(tc.ctx, tc.host+"/fn:1")
			if err == nil || IsUnavailable(err) != tc.want {
				t.Errorf("error %v is taken for unavailable: %t", err, IsUnavailable(err))
			}
		})
	}
	_, noFile := os.Open("/nowhere")
	if IsUnavailable(nil) || IsUnavailable(errors.New("other")) || IsUnavailable(noFile) {
		t.Error("something else is taken for unavailable")
	}
}

// Credentials must not go over plain HTTP to a registry just because it has a private address.
func TestPlainHTTPOnlyWhereListed(t *testing.T) {
	t.Parallel()
	host, counter := startRegistry(t)
	r := newRegistry(t, Config{Backoff: quick})
	if _, err := r.Resolve(t.Context(), host+"/fn:1"); err == nil || IsUnavailable(err) {
		t.Errorf("got error %v", err)
	}
	if requests, _, _, _ := counter.take(); requests != 0 {
		t.Errorf("%d requests were made in plain HTTP", requests)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	discard := log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(registry.New(registry.Logger(discard)))
	server.Config.ErrorLog = discard // refused handshakes are what is tested
	server.StartTLS()
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "https://")
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newRegistry(t, Config{Backoff: quick}).Resolve(t.Context(), host+"/fn:1")
	if err == nil || IsUnavailable(err) {
		t.Errorf("unknown certificate: got error %v", err)
	}
	if said := Explain(err).Error(); !strings.Contains(said, "the registry's certificate is not trusted") {
		t.Errorf("unknown certificate: got %q", said)
	}
	r := newRegistry(t, Config{CAFile: caFile, Backoff: quick})
	base := pushImage(t, r, host+"/base:v1", makeBase(t, types.DockerManifestSchema2))
	req := AppendRequest{Base: base, Target: host + "/fn:1", Layer: sampleLayer(t)}
	if _, err := r.Append(t.Context(), req); err != nil {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	noCert := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(noCert, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		cfg       Config
		wantError string
	}{
		"nothing":     {},
		"CA missing":  {cfg: Config{CAFile: "/nowhere"}, wantError: "reading CA file"},
		"CA no PEM":   {cfg: Config{CAFile: noCert}, wantError: "holds no certificate"},
		"URL":         {cfg: Config{Insecure: []string{"http://a:5000"}}, wantError: "not of the form host"},
		"empty":       {cfg: Config{Insecure: []string{""}}, wantError: "not of the form host"},
		"a good host": {cfg: Config{Insecure: []string{"registry.sless-demo.svc.cluster.local:5000"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(tc.cfg)
			switch {
			case tc.wantError == "" && err != nil:
				t.Error(err)
			case tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)):
				t.Errorf("got error %v, want %q", err, tc.wantError)
			}
		})
	}
}
