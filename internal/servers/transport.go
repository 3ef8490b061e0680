// SPDX-License-Identifier: Apache-2.0

// Package servers holds what the clients of the registry and of the object store share: how they connect, and which
// errors of a connection may pass by themselves.
package servers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// Times after which a server counts as not answering. That a server falls silent is told here, and not by a limit of a whole
// transfer: it is noticed as early for a small transfer as for a large one, and a large one over a slow line is left alone.
// The length of a whole transfer, which depends on the size, is bounded by the context only.
const (
	dialTimeout         = 5 * time.Second
	tlsHandshakeTimeout = 10 * time.Second
	idleTimeout         = 90 * time.Second
	maxIdlePerHost      = 32
)

// NewTransport returns a transport that trusts the certificates of caFile, if it is named, besides those of the system.
// answerTimeout is how long the server may take to begin its answer, and to take or give the next bytes of a body; after
// that a request ends with an error that is a timeout. Bodies come as they are kept: the transport asks for no compression.
func NewTransport(caFile string, answerTimeout time.Duration) (http.RoundTripper, error) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: idleTimeout / 3}).DialContext,
		TLSHandshakeTimeout:   tlsHandshakeTimeout,
		ResponseHeaderTimeout: answerTimeout,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       idleTimeout,
		MaxIdleConnsPerHost:   maxIdlePerHost,
		DisableCompression:    true,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
	}
	guarded := &stallGuard{next: transport, limit: answerTimeout}
	if caFile == "" {
		return guarded, nil
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
	return guarded, nil
}

// IsCertificateFault says whether a connection failed for a reason that only another configuration mends: an unknown or
// wrong certificate, or plain HTTP where TLS was meant.
func IsCertificateFault(err error) bool {
	var (
		unknownCA x509.UnknownAuthorityError
		wrongHost x509.HostnameError
		wrongCert *tls.CertificateVerificationError
	)
	return errors.As(err, &unknownCA) || errors.As(err, &wrongHost) || errors.As(err, &wrongCert) ||
		errors.Is(err, http.ErrSchemeMismatch)
}
