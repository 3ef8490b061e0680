// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	other := errors.New("dial tcp: connection refused")
	// As net/http gives it.
	verification := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://s3.example.com/secret-path", Err: &tls.CertificateVerificationError{Err: err}}
	}
	tests := map[string]struct {
		err  error
		want string
	}{
		"another fault": {err: other, want: other.Error()},
		"unknown authority": {
			err: verification(x509.UnknownAuthorityError{}),
			want: "the object store's certificate is not trusted (x509: certificate signed by unknown authority); put the " +
				"certificate of the authority that signed it into the file that objectStore.caFile names, and restart sless",
		},
		"other name": {
			err: verification(x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a.example.com"}}, Host: "b.example.com"}),
			want: "the object store's certificate is for another name (x509: certificate is valid for a.example.com, not " +
				"b.example.com); give it one for the name in the configuration, or use its name there",
		},
		"expired": {
			err: verification(x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time 12:00:01"}),
			want: "the object store's certificate, or that of its authority, has expired or is not valid yet; renew it, or set " +
				"the clock right",
		},
		"plain HTTP": {
			err: &url.Error{Op: "Get", URL: "https://a", Err: http.ErrSchemeMismatch},
			want: "the object store speaks plain HTTP where TLS is expected; if it is meant to, say so with " +
				"objectStore.insecure",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Explain(fmt.Errorf("storing x: %w", tc.err), "object store", "objectStore")
			if tc.err == other {
				tc.want = "storing x: " + tc.want
			}
			if got.Error() != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if !errors.Is(got, tc.err) {
				t.Error("the cause is lost")
			}
		})
	}
	if Explain(nil, "object store", "objectStore") != nil {
		t.Error("no error became one")
	}
}
