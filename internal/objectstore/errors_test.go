// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

func TestIsUnavailable(t *testing.T) {
	t.Parallel()
	answer := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>said so</Message></Error>", code)
		}
	}
	tests := map[string]struct {
		handler http.HandlerFunc
		want    bool
		// wantRefused is what Explain says of an error that stays.
		wantRefused string
	}{
		"internal error":  {handler: answer(500, "InternalError"), want: true},
		"bad gateway":     {handler: answer(502, ""), want: true},
		"slow down":       {handler: answer(503, "SlowDown"), want: true},
		"too many":        {handler: answer(429, "TooManyRequests"), want: true},
		"request timeout": {handler: answer(400, "RequestTimeout"), want: true},
		"not implemented": {handler: answer(501, "NotImplemented"), wantRefused: "said so"},
		"denied":          {handler: answer(403, "AccessDenied"), wantRefused: "refuses the credentials, or what they are used for ("},
		"unknown key":     {handler: answer(403, "InvalidAccessKeyId"), wantRefused: "(InvalidAccessKeyId)"},
		"signature":       {handler: answer(403, "SignatureDoesNotMatch"), wantRefused: "(SignatureDoesNotMatch)"},
		"clocks apart":    {handler: answer(403, "RequestTimeTooSkewed"), wantRefused: "are apart by more than it allows"},
		"no bucket":       {handler: answer(404, "NoSuchBucket"), wantRefused: "has no bucket"},
		"no object":       {handler: answer(404, "NoSuchKey")},
		"hangs up": {want: true, handler: func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newTestStore(t, testConfig(startHandler(t, tc.handler)))
			_, _, getErr := store.Get(t.Context(), "key")
			putErr := store.Put(t.Context(), "key", strings.NewReader("hello"), 5, nil)
			for what, err := range map[string]error{"Get": getErr, "Put": putErr} {
				checkError(t, what, err, tc.want)
				if IsRefused(err) != (tc.wantRefused != "") || !strings.Contains(Explain(err).Error(), tc.wantRefused) {
					t.Errorf("%s: refused: %t, explained: %v", what, IsRefused(err), Explain(err))
				}
			}
		})
	}
}

func checkError(t *testing.T, what string, err error, wantUnavailable bool) {
	t.Helper()
	if err == nil || IsUnavailable(err) != wantUnavailable {
		t.Errorf("%s: error %v is taken for unavailable: %t", what, err, IsUnavailable(err))
	}
	if err != nil && (strings.Contains(err.Error(), testSecretKey) || strings.Contains(err.Error(), testAccessKey)) {
		t.Errorf("%s: error %v shows a credential", what, err)
	}
}

func TestIsUnavailableWithoutServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	hanging := startHandler(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	plain := strings.Replace(startFake(t), "http://", "https://", 1)

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()

	tests := map[string]struct {
		ctx    context.Context
		server string
		want   bool
	}{
		"refused":      {ctx: t.Context(), server: closed, want: true},
		"unknown name": {ctx: t.Context(), server: "http://nobody.invalid:1", want: true},
		"canceled":     {ctx: canceled, server: hanging},
		"deadline":     {ctx: expired, server: hanging, want: true},
		"no TLS there": {ctx: t.Context(), server: plain},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := newTestStore(t, testConfig(tc.server)).Stat(tc.ctx, "key")
			checkError(t, "Stat", err, tc.want)
		})
	}
	_, noFile := os.Open("/nowhere")
	if IsUnavailable(nil) || IsUnavailable(noFile) || IsRefused(nil) || IsRefused(noFile) {
		t.Error("something else is taken for unavailable")
	}
}

func TestRequestsAreTriedAgain(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	url := startHandler(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) < maxTries {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Length", "5")
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	})
	info, err := newTestStore(t, testConfig(url)).Stat(t.Context(), "key")
	if err != nil || info.Size != 5 {
		t.Errorf("got size %d, error %v", info.Size, err)
	}
	if got := requests.Load(); got != maxTries {
		t.Errorf("%d requests were made, want %d", got, maxTries)
	}
}

func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	cfg := testConfig(startVersitygw(t))
	cfg.SecretKey = "another-secret-key"
	err := newTestStore(t, cfg).EnsureBucket(t.Context())
	checkError(t, "EnsureBucket", err, false)
}
