// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/go-logr/logr"
)

const (
	// minFetchInterval is the least time between two fetches, whoever asks for them and however they end.
	minFetchInterval = 10 * time.Second
	// refreshAge is when keys are fetched again although they are all known, so that a withdrawn key is forgotten.
	refreshAge = 10 * time.Minute
	// maxKeyAge is how long keys are trusted while the issuer cannot be reached.
	maxKeyAge = 24 * time.Hour
	// fetchTimeout bounds one fetch.
	fetchTimeout = 5 * time.Second
	// maxKeySetBytes bounds a key set. Real ones have a few KiB.
	maxKeySetBytes = 256 << 10
	maxRedirects   = 3
)

// keySet keeps the issuer's keys. It gives keyfunc a storage of which only KeyRead is used.
//
// keyfunc has a keeper of its own, which is not used: over its limit it makes requests wait for minutes, it takes an
// empty answer for "no keys", and requests that come while a new key is being fetched fail.
type keySet struct {
	jwkset.Storage // always empty
	url            string
	client         *http.Client
	now            func() time.Time
	log            logr.Logger

	current atomic.Pointer[snapshot]
	busy    chan struct{} // holds one value while somebody fetches; guards what follows
	tried   time.Time     // zero before the first fetch
	failure error         // of the last fetch
}

// snapshot is what one fetch brought.
type snapshot struct {
	keys    jwkset.Storage
	fetched time.Time
}

func newKeySet(url string, now func() time.Time, logger logr.Logger) *keySet {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxKeySetBytes
	return &keySet{
		Storage: jwkset.NewMemoryStorage(),
		url:     url,
		client: &http.Client{
			Transport: &boundedTransport{next: transport}, CheckRedirect: checkRedirect,
		},
		now: now, log: logger,
		busy: make(chan struct{}, 1),
	}
}

// KeyRead finds a key. An unknown one makes the keys be fetched, at most once per minFetchInterval.
func (k *keySet) KeyRead(ctx context.Context, kid string) (jwkset.JWK, error) {
	now, seen := k.now(), k.current.Load()
	age := now.Sub(seen.time()).Abs() // the clock may have been put back
	key, found := seen.find(ctx, kid)
	if found && age < refreshAge {
		return key, nil
	}
	// Who has a key that will do until the next time does not wait for somebody else's fetch.
	failure := k.refresh(ctx, now, seen, !found || age >= maxKeyAge)
	latest := k.current.Load()
	if now.Sub(latest.time()) >= maxKeyAge {
		return jwkset.JWK{}, ErrKeysUnavailable
	}
	if key, found = latest.find(ctx, kid); found {
		return key, nil
	}
	if failure != nil {
		return jwkset.JWK{}, ErrKeysUnavailable // the log says why
	}
	return jwkset.JWK{}, jwkset.ErrKeyNotFound
}

// refresh fetches the keys, unless somebody else has done so since seen was read, or it was tried a moment ago. The
// error is that of the last try.
func (k *keySet) refresh(ctx context.Context, now time.Time, seen *snapshot, wait bool) error {
	select {
	case k.busy <- struct{}{}:
	default:
		if !wait {
			return nil
		}
		select {
		case k.busy <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-k.busy }()
	if k.current.Load() != seen || (!k.tried.IsZero() && now.Sub(k.tried).Abs() < minFetchInterval) {
		return k.failure
	}
	k.tried = now
	// Not the request's context: a client that goes away must not waste the one fetch of the interval.
	keys, err := k.fetch()
	k.failure = err
	if err != nil {
		k.log.Error(err, "Fetching the issuer's keys failed", "url", k.url)
		return err
	}
	k.current.Store(&snapshot{keys: keys, fetched: now})
	return nil
}

func (k *keySet) fetch() (jwkset.Storage, error) {
	keys, err := jwkset.NewStorageFromHTTP(k.url, jwkset.HTTPClientStorageOptions{
		Client: k.client, HTTPTimeout: fetchTimeout,
	})
	if err != nil {
		return nil, err
	}
	if all, err := keys.KeyReadAll(context.Background()); err != nil || len(all) == 0 {
		return nil, errors.Join(errors.New("the key set has no usable key"), err)
	}
	return keys, nil
}

// time is when the keys were fetched, the zero time when they never were.
func (s *snapshot) time() time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.fetched
}

func (s *snapshot) find(ctx context.Context, kid string) (jwkset.JWK, bool) {
	if s == nil {
		return jwkset.JWK{}, false
	}
	key, err := s.keys.KeyRead(ctx, kid)
	return key, err == nil
}

// boundedTransport bounds the length of answers. What is longer gives an error, not a part.
type boundedTransport struct{ next http.RoundTripper }

// RoundTrip sends a request.
func (t *boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = http.MaxBytesReader(nil, res.Body, maxKeySetBytes)
	return res, nil
}

func checkRedirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("the key set redirects too often")
	}
	if via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
		return errors.New("the key set redirects from https to something else")
	}
	return nil
}
