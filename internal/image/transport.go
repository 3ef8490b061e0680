// SPDX-License-Identifier: Apache-2.0

package image

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// Times after which a registry counts as not answering. The length of a whole transfer is bounded by the context only.
// The answer to the end of an upload may take long: some registries copy the layer then.
const (
	dialTimeout           = 5 * time.Second
	tlsHandshakeTimeout   = 10 * time.Second
	responseHeaderTimeout = 2 * time.Minute
	idleTimeout           = 90 * time.Second
	maxIdlePerHost        = 32
)

func newTransport(caFile string) (*http.Transport, error) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: idleTimeout / 3}).DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   tlsHandshakeTimeout,
		ResponseHeaderTimeout: responseHeaderTimeout,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       idleTimeout,
		MaxIdleConnsPerHost:   maxIdlePerHost,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if caFile == "" {
		return transport, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("reading CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA file %s holds no certificate", caFile)
	}
	transport.TLSClientConfig.RootCAs = pool
	return transport, nil
}

// schemeTransport decides between http and https by the configuration alone. The library above it guesses: it would
// send credentials in plain text to any registry with a local name or a private address that does not answer to TLS,
// and tries TLS first with those that are known to be plain.
type schemeTransport struct {
	next     http.RoundTripper
	insecure map[string]bool
}

func (t *schemeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	scheme := "https"
	if t.insecure[req.URL.Host] {
		scheme = "http"
	}
	if req.URL.Scheme != scheme {
		req = req.Clone(req.Context())
		req.URL.Scheme = scheme
	}
	return t.next.RoundTrip(req)
}
