// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkCall compares a small warm call through the gateway with the same call straight to the function. The
// difference is what the gateway costs; all parts share the machine's cores.
func BenchmarkCall(b *testing.B) {
	host := startUpstream(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"hello":"world"}`))
	})
	g := startGateway(b, routeTo(host, testTimeout))
	for _, target := range []struct{ name, url string }{
		{"straight", "http://" + host + "/"},
		{"gateway", g.url + "/fn/demo/hello"},
	} {
		for _, body := range []struct{ name, text string }{{"GET", ""}, {"POST", `{"name":"world"}`}} {
			b.Run(target.name+"/"+body.name, func(b *testing.B) {
				b.ReportAllocs()
				transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
				defer transport.CloseIdleConnections()
				b.SetParallelism(16)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						benchmarkCall(b, transport, body.name, target.url, body.text)
					}
				})
			})
		}
	}
}

func benchmarkCall(b *testing.B, transport *http.Transport, method, url, body string) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		b.Error(err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		b.Errorf("got %d, %v", res.StatusCode, err)
	}
}
