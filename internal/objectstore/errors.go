// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"

	"github.com/naeel/sless/internal/servers"
)

// IsUnavailable says whether the error comes from a store that cannot be reached, does not answer or is overloaded, so
// that the same call may succeed later. Wrong credentials, an unknown certificate, a missing bucket or object and a
// call that was cancelled are not of that kind.
func IsUnavailable(err error) bool {
	var (
		response  minio.ErrorResponse
		requested *url.Error
		operation *net.OpError
		lookup    *net.DNSError
	)
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return false
	case servers.IsCertificateFault(err):
		return false
	case errors.As(err, &response) && response.StatusCode != 0:
		return isRetryable(response)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	}
	// Not net.Error: the errors of the file system look like it.
	return errors.As(err, &requested) || errors.As(err, &operation) || errors.As(err, &lookup)
}

// IsRefused says whether the store was reached and will not do what it is asked until somebody changes the configuration or
// the store: wrong credentials, an unknown certificate, a missing bucket. Explain tells what to change.
func IsRefused(err error) bool {
	var response minio.ErrorResponse
	if !errors.As(err, &response) || response.StatusCode == 0 {
		return servers.IsCertificateFault(err)
	}
	missing := response.StatusCode == http.StatusNotFound && response.Code != minio.NoSuchBucket
	return !isRetryable(response) && !missing
}

// Explain turns an error into one that says what whoever runs sless can do about it, where that is known.
func Explain(err error) error {
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok {
		switch {
		case response.Code == codeTooSkewed:
			return &servers.Explained{Err: err, Text: "the object store's clock and that of the machine that asks it are apart " +
				"by more than it allows, mostly 15 minutes; set them right"}
		case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
			return &servers.Explained{Err: err, Text: "the object store refuses the credentials, or what they are used for (" +
				response.Code + "); set right those that objectStore.secretName names and the manager's"}
		case response.Code == minio.NoSuchBucket:
			return &servers.Explained{Err: err, Text: "the object store has no bucket of the name in objectStore.bucket"}
		}
	}
	return servers.Explain(err, "object store", "objectStore")
}

func isRetryable(response minio.ErrorResponse) bool {
	switch response.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	switch response.Code {
	case "RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded":
		return true
	}
	return response.StatusCode >= http.StatusInternalServerError && response.StatusCode != http.StatusNotImplemented
}
