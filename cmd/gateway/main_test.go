// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestClusterTime has a machine whose clock is minutes off from the API server's.
func TestClusterTime(t *testing.T) {
	t.Parallel()
	const off = 10 * time.Minute
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL}
	now := clusterTime(cfg)
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if got := time.Until(now()); (got - off).Abs() > off/2 {
		t.Errorf("tokens are judged %s from the machine's clock, want %s", got, off)
	}
}
