// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/naeel/sless/internal/servers"
)

// LayerError says that the content of a layer could not be had from where it is kept. It is no fault of the registry;
// its cause tells what to do.
type LayerError struct {
	// Digest is the digest of the layer.
	Digest string
	// Err is the error of LayerSource.Open or of what it opened, or an *archive.DigestError for a content that is
	// another one.
	Err error
}

func (e *LayerError) Error() string { return "layer " + e.Digest + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *LayerError) Unwrap() error { return e.Err }

// IsUnavailable says whether the error comes from a registry that cannot be reached, does not answer or is overloaded,
// so that the same call may succeed later. Refused credentials, an unknown certificate, a missing image, a LayerError
// and a call that was cancelled are not of that kind.
func IsUnavailable(err error) bool {
	var (
		layer     *LayerError
		file      *fileError
		answer    *transport.Error
		requested *url.Error
		operation *net.OpError
		lookup    *net.DNSError
	)
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.As(err, &layer), errors.As(err, &file):
		return false
	case servers.IsCertificateFault(err):
		return false
	case errors.As(err, &answer):
		return isRetryable(answer.StatusCode)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	}
	// Not net.Error: the errors of the file system look like it.
	return errors.As(err, &requested) || errors.As(err, &operation) || errors.As(err, &lookup)
}

// Explain turns an error into one that says what whoever runs sless can do about it, where that is known.
func Explain(err error) error { return servers.Explain(err, "registry", "registry") }

func isRetryable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	}
	return status >= http.StatusInternalServerError
}

// IsNotFound says whether the registry answered that there is no such image.
func IsNotFound(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}
