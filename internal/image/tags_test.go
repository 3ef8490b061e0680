// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

func TestTags(t *testing.T) {
	t.Parallel()
	for server, start := range registries {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			host, _ := start(t)
			r := newTestRegistry(t, host)
			base := makeBase(t, types.OCIManifestSchema1)
			var want []string
			for i := range 3 {
				want = append(want, fmt.Sprintf("t%d", i))
				pushImage(t, r, host+"/team/fn:"+want[i], base)
			}
			got, err := r.Tags(t.Context(), host+"/team/fn", 100)
			slices.Sort(got)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("got %v, %v", got, err)
			}
			if got, err := r.Tags(t.Context(), host+"/none", 100); err != nil || len(got) != 0 {
				t.Errorf("of nothing: got %v, %v", got, err)
			}
		})
	}
}

// TestTagsIsBounded gives a page after the other and counts them.
func TestTagsIsBounded(t *testing.T) {
	t.Parallel()
	pages := 0
	host, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		pages++
		w.Header().Set("Link", fmt.Sprintf("<%s?last=%d>; rel=\"next\"", r.URL.Path, pages))
		_, _ = fmt.Fprintf(w, `{"name":"fn","tags":["a%d","b%d"]}`, pages, pages)
	}))
	got, err := newTestRegistry(t, host).Tags(t.Context(), host+"/fn", 5)
	if err != nil || len(got) != 6 || pages != 3 {
		t.Errorf("got %v from %d pages, %v", got, pages, err)
	}
}

func TestIsRefused(t *testing.T) {
	t.Parallel()
	const unsupported = `{"errors":[{"code":"UNSUPPORTED","message":"The operation is unsupported."}]}`
	tests := map[string]struct {
		status int
		body   string
		want   bool
	}{
		"deletion switched off":      {http.StatusMethodNotAllowed, unsupported, true},
		"says so with another code":  {http.StatusBadRequest, unsupported, true},
		"login may not":              {http.StatusForbidden, `{"errors":[{"code":"DENIED"}]}`, true},
		"no login":                   {http.StatusUnauthorized, `{"errors":[{"code":"UNAUTHORIZED"}]}`, true},
		"not built":                  {http.StatusNotImplemented, "", true},
		"bad request":                {http.StatusBadRequest, `{"errors":[{"code":"DIGEST_INVALID"}]}`, false},
		"overloaded":                 {http.StatusServiceUnavailable, "", false},
		"proxy without words for it": {http.StatusBadGateway, "<html>", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					return
				}
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
			}))
			err := newTestRegistry(t, host).Delete(t.Context(), host+"/fn:a")
			if err == nil || IsRefused(err) != tc.want {
				t.Errorf("got %v, refused %v", err, IsRefused(err))
			}
		})
	}
	if IsRefused(nil) || IsRefused(errors.New("405 Method Not Allowed")) {
		t.Error("what is no answer of a registry is taken for a refusal")
	}
}
