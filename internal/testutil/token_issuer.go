// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// TokenIssuer signs tokens with ES256 and, as an HTTP handler, publishes the key that they are verified with.
type TokenIssuer struct {
	key *ecdsa.PrivateKey
	id  string
}

// NewTokenIssuer makes an issuer with a key of its own.
func NewTokenIssuer() (*TokenIssuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key: %w", err)
	}
	return &TokenIssuer{key: key, id: rand.Text()}, nil
}

// ServeHTTP answers with the key set (RFC 7517), at whatever path.
func (i *TokenIssuer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	point, err := i.key.PublicKey.Bytes()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	// An uncompressed point is a byte 4 and the two coordinates.
	coordinate := func(from int) string { return base64.RawURLEncoding.EncodeToString(point[from : from+32]) }
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": []map[string]string{{
		"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": i.id, "x": coordinate(1), "y": coordinate(33),
	}}})
}

// Token returns a token for sub that holds for an hour.
func (i *TokenIssuer) Token(issuer, audience, sub string) (string, error) {
	now := time.Now()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": issuer, "aud": audience, "sub": sub, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	})
	token.Header["kid"] = i.id
	signed, err := token.SignedString(i.key)
	if err != nil {
		return "", fmt.Errorf("signing the token: %w", err)
	}
	return signed, nil
}
