// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/MicahParks/jwkset"
	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
)

func (f *fixture) check(t *testing.T, what, token string, want error) {
	t.Helper()
	_, err := f.verifier.Verify(t.Context(), token)
	var invalid *InvalidTokenError
	switch {
	case want == nil && err != nil:
		t.Errorf("%s: %v", what, err)
	case errors.As(want, &invalid) && !errors.As(err, &invalid):
		t.Errorf("%s: got %v, want an invalid token", what, err)
	case errors.Is(want, ErrKeysUnavailable) && !errors.Is(err, ErrKeysUnavailable):
		t.Errorf("%s: got %v, want that the keys are unavailable", what, err)
	}
}

func (f *fixture) wantFetches(t *testing.T, what string, want int) {
	t.Helper()
	if got := f.count(); got != want {
		t.Errorf("%s: keys were fetched %d times, want %d", what, got, want)
	}
}

var errInvalid = invalid("any")

func TestRotation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, rsaJWK("old", rsaKey()))
	old, renewed := rs256("old", goodClaims()), sign(object{"alg": "RS256", "kid": "new"}, goodClaims(), otherRSA())
	f.wantFetches(t, "before the first token", 0)
	f.check(t, "old key", old, nil)
	f.check(t, "old key again", old, nil)
	f.wantFetches(t, "known keys", 1)

	f.check(t, "not yet published", renewed, errInvalid)
	f.set(nil, rsaJWK("old", rsaKey()), rsaJWK("new", otherRSA()))
	f.clock.advance(minFetchInterval)
	f.check(t, "new key", renewed, nil)
	f.check(t, "old key beside it", old, nil)
	f.wantFetches(t, "after the rotation", 2)

	f.set(nil, rsaJWK("new", otherRSA()))
	f.clock.advance(refreshAge)
	f.check(t, "withdrawn key", old, errInvalid)
	f.wantFetches(t, "after the withdrawal", 3)
	if strings.Contains(f.logs.String(), "failed") {
		t.Errorf("logged:\n%s", f.logs)
	}
}

// TestClockPutBack learns, after the first tokens, that it is earlier than it seemed: a gateway's own clock may be minutes off.
func TestClockPutBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, rsaJWK("old", rsaKey()))
	f.clock.advance(2 * refreshAge)
	late := with(goodClaims(), "exp", testTime.Add(3*refreshAge).Unix())
	f.check(t, "old key", rs256("old", late), nil)
	f.set(nil, rsaJWK("new", otherRSA()))
	f.clock.advance(-2 * refreshAge)
	f.check(t, "withdrawn key", rs256("old", goodClaims()), errInvalid)
	f.check(t, "new key", sign(object{"alg": "RS256", "kid": "new"}, goodClaims(), otherRSA()), nil)
	f.wantFetches(t, "after the clock was put back", 2)
}

// TestGarbageDoesNotReachTheIssuer sends many tokens with unknown keys, one after the other and at once.
func TestGarbageDoesNotReachTheIssuer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	flood := func() {
		var group errgroup.Group
		group.SetLimit(8)
		for i := range 200 {
			group.Go(func() error {
				token := rs256(fmt.Sprintf("garbage-%d", i), goodClaims())
				if i%2 == 0 {
					token = sign(object{"alg": "RS256", "kid": "rsa"}, goodClaims(), nil)
				}
				f.check(t, "garbage", token, errInvalid)
				return nil
			})
		}
		_ = group.Wait()
	}
	flood()
	f.wantFetches(t, "first flood", 1)
	flood()
	f.wantFetches(t, "second flood", 1)
	f.clock.advance(minFetchInterval)
	flood()
	f.wantFetches(t, "flood after the interval", 2)
	f.check(t, "a good token", rs256("rsa", goodClaims()), nil)
	f.wantFetches(t, "good token", 2)
}

// TestGarbageThatNeverAsks has tokens that are refused before any key is looked for.
func TestGarbageThatNeverAsks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, token := range map[string]string{
		"none":   sign(object{"alg": "none", "kid": "x"}, goodClaims(), nil),
		"HS256":  sign(object{"alg": "HS256", "kid": "x"}, goodClaims(), []byte("x")),
		"no kid": sign(object{"alg": "RS256"}, goodClaims(), rsaKey()),
	} {
		f.check(t, name, token, errInvalid)
	}
	f.wantFetches(t, "garbage", 0)
}

// TestManyAtOnceWaitForOneFetch has the first tokens after a start.
func TestManyAtOnceWaitForOneFetch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	token := rs256("rsa", goodClaims())
	var group errgroup.Group
	for range 32 {
		group.Go(func() error { _, err := f.verifier.Verify(t.Context(), token); return err })
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	f.wantFetches(t, "a good token, many times at once", 1)
}

func TestIssuerIsAway(t *testing.T) {
	t.Parallel()
	down := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusBadGateway) }
	f := newFixture(t)
	keys := f.keys
	token := rs256("rsa", goodClaims())
	f.set(down, keys...)
	f.check(t, "no keys yet", token, ErrKeysUnavailable)
	f.check(t, "at once again", token, ErrKeysUnavailable)
	f.wantFetches(t, "down", 1)

	f.set(nil, keys...)
	f.clock.advance(minFetchInterval)
	f.check(t, "back", token, nil)

	f.set(down, keys...)
	f.clock.advance(refreshAge)
	old := rs256("rsa", with(goodClaims(), "exp", testTime.Add(48*60*60*1e9).Unix()))
	f.check(t, "known keys go on", old, nil)
	f.check(t, "an unknown key", rs256("new", goodClaims()), ErrKeysUnavailable)
	f.wantFetches(t, "down again", 3)
	f.clock.advance(maxKeyAge)
	f.check(t, "keys that are too old", old, ErrKeysUnavailable)
	if !strings.Contains(f.logs.String(), "Fetching the issuer's keys failed") || strings.Contains(f.logs.String(), token) {
		t.Errorf("logged:\n%s", f.logs)
	}
}

func TestBadKeySets(t *testing.T) {
	t.Parallel()
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	tests := map[string]http.HandlerFunc{
		"empty":        body(""),
		"HTML":         body("<html>"),
		"no keys":      body("{}"),
		"empty list":   body(`{"keys":[]}`),
		"broken key":   body(`{"keys":[{"kty":"RSA","kid":"rsa","n":"!","e":"AQAB"}]}`),
		"unknown keys": body(`{"keys":[{"kty":"new","kid":"rsa"}]}`),
		"not found":    http.NotFound,
		"hangs up":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"too large": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[],"x":"`))
			for range maxKeySetBytes/1024 + 1 {
				if _, err := w.Write([]byte(strings.Repeat("x", 1024))); err != nil {
					return
				}
			}
			_, _ = w.Write([]byte(`"}`))
		},
		"endless redirects": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
	}
	for name, handler := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			keys := f.keys
			token := rs256("rsa", goodClaims())
			f.check(t, "before", token, nil)
			f.set(handler, keys...)
			f.clock.advance(refreshAge)
			f.check(t, "the keys from before", token, nil)
			f.check(t, "an unknown key", rs256("new", goodClaims()), ErrKeysUnavailable)
			if f.count() > 2+maxRedirects {
				t.Errorf("keys were fetched %d times", f.count())
			}
		})
	}
}

// TestLargestKeySet is just below the bound.
func TestLargestKeySet(t *testing.T) {
	t.Parallel()
	f := newFixture(t, rsaJWK("rsa", rsaKey()), object{"kty": "new", "kid": strings.Repeat("x", maxKeySetBytes-1024)})
	f.check(t, "a large key set", rs256("rsa", goodClaims()), nil)
}

// TestClientThatGoesAway does not waste the one fetch of the interval.
func TestClientThatGoesAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = f.verifier.Verify(ctx, rs256("rsa", goodClaims()))
	f.check(t, "the next client", rs256("rsa", goodClaims()), nil)
	f.wantFetches(t, "both", 1)
}

// TestSlowIssuer has one fetch that does not end: who does not need it goes on, who needs it can leave.
func TestSlowIssuer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keys, token := f.keys, rs256("rsa", goodClaims())
	f.check(t, "before", token, nil)
	entered, release := make(chan struct{}), make(chan struct{})
	f.set(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		http.Error(w, "down", http.StatusBadGateway)
	}, keys...)
	f.clock.advance(refreshAge)
	first := make(chan error)
	go func() {
		_, err := f.verifier.Verify(context.WithoutCancel(t.Context()), token)
		first <- err
	}()
	<-entered
	f.check(t, "a known key meanwhile", token, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.verifier.Verify(ctx, rs256("new", goodClaims())); !errors.Is(err, ErrKeysUnavailable) {
		t.Errorf("a client that left: %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the one that fetched: %v", err)
	}
}

func TestRedirectToPlainHTTP(t *testing.T) {
	t.Parallel()
	plain := startIssuer(t, rsaJWK("rsa", rsaKey()))
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.url, http.StatusFound))
	t.Cleanup(secure.Close)
	keys := newKeySet(secure.URL, (&clock{now: testTime}).Now, logr.Discard())
	keys.client.Transport = &boundedTransport{next: secure.Client().Transport}
	if _, err := keys.KeyRead(t.Context(), "rsa"); !errors.Is(err, ErrKeysUnavailable) || errors.Is(err, jwkset.ErrKeyNotFound) {
		t.Errorf("got %v", err)
	}
	if plain.count() != 0 {
		t.Error("keys were fetched over plain HTTP")
	}
}
