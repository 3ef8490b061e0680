// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
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
	return issuerWith(key)
}

// TokenIssuerOf returns the issuer whose Key was given, so that several processes sign what one of them publishes.
func TokenIssuerOf(der []byte) (*TokenIssuer, error) {
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	return issuerWith(key)
}

func issuerWith(key *ecdsa.PrivateKey) (*TokenIssuer, error) {
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, fmt.Errorf("encoding the public key: %w", err)
	}
	id := sha256.Sum256(point)
	return &TokenIssuer{key: key, id: base64.RawURLEncoding.EncodeToString(id[:])}, nil
}

// Key returns the private key, DER encoded.
func (i *TokenIssuer) Key() ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(i.key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key: %w", err)
	}
	return der, nil
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
