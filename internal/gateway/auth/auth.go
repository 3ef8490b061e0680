// SPDX-License-Identifier: Apache-2.0

// Package auth tells who is calling the gateway's API, from the Bearer token of a request.
//
// Tokens are JWTs that an issuer signs and whose keys it publishes as a JWKS. They are parsed and judged by golang-jwt,
// keys are fetched and parsed by jwkset; what is decided here is what is accepted, and when keys are fetched, so that
// nobody can make the gateway hammer the issuer. No error and no log line of this package holds any part of a token.
package auth

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// MaxTokenBytes bounds a token.
const MaxTokenBytes = 16 << 10

// Verifier tells whose token a token is.
type Verifier interface {
	// Verify returns the subject of a token, which is never empty. The error is an *InvalidTokenError when another token
	// is needed and ErrKeysUnavailable when the same token may be good later.
	Verify(ctx context.Context, token string) (subject string, err error)
}

// ErrKeysUnavailable says that the token cannot be judged now, because the issuer's keys cannot be had.
var ErrKeysUnavailable = errors.New("the keys of the token's issuer cannot be fetched")

// InvalidTokenError says why a token is not accepted.
type InvalidTokenError struct {
	// Problem is a sentence for the client. It comes from a fixed set and is safe in a header.
	Problem string
}

// Error gives the problem.
func (e *InvalidTokenError) Error() string {
	return e.Problem
}

func invalid(problem string) error {
	return &InvalidTokenError{Problem: problem}
}

// ErrNoToken says that a request has no Bearer token.
var ErrNoToken = errors.New("a Bearer token is needed in the Authorization header")

// FromRequest returns the Bearer token of a request. The error is ErrNoToken when there is none, and an
// *InvalidTokenError when there are several or it is too long. A token in the URL does not count: URLs are logged.
func FromRequest(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	switch len(values) {
	case 0:
		return "", ErrNoToken
	case 1:
	default:
		return "", invalid("there is more than one Authorization header")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", ErrNoToken
	}
	if len(token) > MaxTokenBytes {
		return "", invalid("the token is too long")
	}
	return token, nil
}
