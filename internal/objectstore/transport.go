// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// Times after which a store counts as not answering. The length of a whole transfer is bounded by the context only: it
// depends on the size.
const (
	dialTimeout           = 5 * time.Second
	tlsHandshakeTimeout   = 10 * time.Second
	responseHeaderTimeout = 60 * time.Second
	idleTimeout           = 90 * time.Second
	maxIdlePerHost        = 32
)

func newTransport(caFile string) (*http.Transport, error) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: idleTimeout / 3}).DialContext,
		TLSHandshakeTimeout:   tlsHandshakeTimeout,
		ResponseHeaderTimeout: responseHeaderTimeout,
		IdleConnTimeout:       idleTimeout,
		MaxIdleConnsPerHost:   maxIdlePerHost,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		// An object that says that it is compressed must come as it was stored.
		DisableCompression: true,
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
