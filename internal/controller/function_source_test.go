// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/naeel/sless/api/v1alpha1"
)

func TestStoreFault(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err        error
		wantReason string
		want       string
	}{
		"away": {
			err: &net.OpError{Op: "dial"}, wantReason: v1alpha1.ReasonStoreUnavailable, want: "the object store does not answer",
		},
		"the manager ends": {
			err: context.Canceled, wantReason: v1alpha1.ReasonStoreUnavailable, want: "the object store does not answer",
		},
		"authority unknown": {
			err: &url.Error{Op: "Put", URL: "https://s3/sless", Err: &tls.CertificateVerificationError{
				Err: x509.UnknownAuthorityError{},
			}},
			wantReason: v1alpha1.ReasonStoreRefused,
			want:       "the object store's certificate is not trusted (x509: certificate signed by unknown authority)",
		},
		"credentials": {
			err:        minio.ErrorResponse{StatusCode: http.StatusForbidden, Code: minio.SignatureDoesNotMatch},
			wantReason: v1alpha1.ReasonStoreRefused,
			want:       "the object store refuses the credentials, or what they are used for (SignatureDoesNotMatch)",
		},
		"no bucket": {
			err:        minio.ErrorResponse{StatusCode: http.StatusNotFound, Code: minio.NoSuchBucket},
			wantReason: v1alpha1.ReasonStoreRefused, want: "the object store has no bucket",
		},
		"plain HTTP to TLS": {
			err: minio.ErrorResponse{
				StatusCode: http.StatusBadRequest, Message: "Client sent an HTTP request to an HTTPS server.",
			},
			wantReason: v1alpha1.ReasonStoreRefused, want: "Client sent an HTTP request to an HTTPS server.",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, fault := range []error{storeFault(tc.err), storedCodeFault(fmt.Errorf("reading x: %w", tc.err))} {
				got := asPhaseError(fault)
				if got.kind != kindPlatform || got.condition != v1alpha1.ConditionSourceReady || got.reason != tc.wantReason {
					t.Errorf("got kind %d, %s=%s", got.kind, got.condition, got.reason)
				}
				if !strings.Contains(got.message, tc.want) {
					t.Errorf("got message %q, want %q in it", got.message, tc.want)
				}
			}
		})
	}
}
