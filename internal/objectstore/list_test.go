// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestList(t *testing.T) {
	t.Parallel()
	servers := map[string]func(*testing.T) string{"gofakes3": startFake, "versitygw": startVersitygw}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newTestStore(t, testConfig(start(t)))
			if err := store.EnsureBucket(t.Context()); err != nil {
				t.Fatal(err)
			}
			const count = 1003 // more than a page
			want := putMany(t, store, "ns/", count)
			putMany(t, store, "ns-other/", 1)
			before := time.Now().Add(-time.Hour)
			var got []string
			for object, err := range store.List(t.Context(), CodePrefix("ns")) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, object.Key)
				if object.Size != 3 || object.LastModified.Before(before) {
					t.Errorf("got %+v", object)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %d keys, want %d: %v", len(got), len(want), got)
			}
			for range store.List(t.Context(), "ns/") {
				break // must not panic or go on
			}
			for object, err := range store.List(t.Context(), "none/") {
				t.Errorf("of nothing: got %v, %v", object, err)
			}
		})
	}
}

func putMany(t *testing.T, store *S3, prefix string, count int) (keys []string) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range count {
		key := fmt.Sprintf("%s%04d", prefix, i)
		keys = append(keys, key)
		group.Go(func() error { return store.Put(t.Context(), key, strings.NewReader("abc"), 3, nil) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestListFails(t *testing.T) {
	t.Parallel()
	store := newTestStore(t, testConfig(startFake(t))) // without a bucket
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"no bucket": t.Context(), "cancelled": cancelled} {
		errs := 0
		for _, err := range store.List(ctx, "ns/") {
			if err == nil || IsUnavailable(err) || errors.Is(err, ErrNotFound) {
				t.Errorf("%s: got error %v", name, err)
			}
			errs++
		}
		if errs != 1 {
			t.Errorf("%s: got %d errors", name, errs)
		}
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	const refresh = time.Hour
	now := time.Now()
	tests := map[string]struct {
		stored        string
		refreshAfter  time.Duration
		now           time.Time
		wantRefreshed bool
		wantPut       bool
	}{
		"nothing there":                {refreshAfter: refresh, now: now, wantPut: true},
		"there and young":              {stored: "abc", refreshAfter: refresh, now: now.Add(refresh / 2)},
		"there and old":                {stored: "abc", refreshAfter: refresh, now: now.Add(2 * refresh), wantRefreshed: true, wantPut: true},
		"nothing is ever removed":      {stored: "abc", now: now.Add(1000 * refresh)},
		"another size, as after fault": {stored: "ab", refreshAfter: refresh, now: now, wantPut: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &countingStore{Store: newTestStore(t, testConfig(startFake(t)))}
			if err := store.Store.(*S3).EnsureBucket(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tc.stored != "" {
				if err := store.Store.Put(t.Context(), "ns/a", strings.NewReader(tc.stored), int64(len(tc.stored)), nil); err != nil {
					t.Fatal(err)
				}
			}
			object := Archive{Key: "ns/a", Content: strings.NewReader("abc"), Size: 3}
			refreshed, err := Keep(t.Context(), store, object, tc.refreshAfter, tc.now)
			if err != nil || refreshed != tc.wantRefreshed || store.puts > 0 != tc.wantPut {
				t.Errorf("got %v, %v after %d puts", refreshed, err, store.puts)
			}
			if info, err := store.Stat(t.Context(), "ns/a"); err != nil || info.Size != 3 || info.LastModified.IsZero() {
				t.Errorf("stored is %+v, %v", info, err)
			}
		})
	}
}

// TestStoreWithAnotherClock has a store whose clock is minutes off: what it stored is as old as it is.
func TestStoreWithAnotherClock(t *testing.T) {
	t.Parallel()
	const refresh = time.Minute
	for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			url := startFakeWithClock(t, off)
			caller := clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour)) // the API server's, for instance
			cfg := testConfig(url)
			cfg.Clock = caller
			store := newTestStore(t, cfg)
			if err := store.EnsureBucket(t.Context()); err != nil {
				t.Fatal(err)
			}
			object := Archive{Key: "ns/a", Content: strings.NewReader("abc"), Size: 3}
			for i, wantRefreshed := range []bool{false, false, true} {
				now := caller.Now()
				if i == 2 {
					now = now.Add(2 * refresh)
				}
				if refreshed, err := Keep(t.Context(), store, object, refresh, now); err != nil || refreshed != wantRefreshed {
					t.Errorf("time %d: refreshed %t, %v", i, refreshed, err)
				}
			}
			for listed, err := range store.List(t.Context(), "ns/") {
				if age := caller.Now().Sub(listed.LastModified); err != nil || age.Abs() > refresh/2 {
					t.Errorf("a new object is listed as %s old, %v", age, err)
				}
			}
		})
	}
}

// TestClocksTooFarApart has a store that refuses what was signed too long ago. Its answers to HEAD have no body to tell it.
func TestClocksTooFarApart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		off           time.Duration
		want, wantErr string
	}{
		{off: 20 * time.Minute, want: "are apart by more than it allows", wantErr: "too far from"},
		{off: -20 * time.Minute, want: "are apart by more than it allows", wantErr: "too far from"},
		{off: time.Minute, want: "refuses the credentials", wantErr: "Access Denied"},
	} {
		store := newTestStore(t, testConfig(startHandler(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(tc.off).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusForbidden)
		})))
		_, err := store.Stat(t.Context(), "key")
		if !IsRefused(err) || !strings.Contains(err.Error(), tc.wantErr) || !strings.Contains(Explain(err).Error(), tc.want) {
			t.Errorf("%s apart: got %v, explained %v", tc.off, err, Explain(err))
		}
	}
}

// TestKeepAsksFirst makes sure that a store that does not answer is not written to.
func TestKeepAsksFirst(t *testing.T) {
	t.Parallel()
	store := &countingStore{Store: newTestStore(t, testConfig("http://127.0.0.1:1"))}
	_, err := Keep(t.Context(), store, Archive{Key: "ns/a", Content: strings.NewReader("a"), Size: 1}, time.Hour, time.Now())
	if !IsUnavailable(err) || store.puts != 0 {
		t.Errorf("got %v after %d puts", err, store.puts)
	}
}

type countingStore struct {
	Store

	puts int
}

func (s *countingStore) Put(ctx context.Context, key string, r io.Reader, size int64, meta map[string]string) error {
	s.puts++
	return s.Store.Put(ctx, key, r, size, meta)
}
