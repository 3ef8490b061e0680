// SPDX-License-Identifier: Apache-2.0

package image

import (
	"net/http"
	"time"
)

// defaultAnswerTimeout is long for the answer to the end of an upload: some registries copy the layer then.
const defaultAnswerTimeout = 2 * time.Minute

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
