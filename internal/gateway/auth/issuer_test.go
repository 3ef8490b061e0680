// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

const (
	testIssuer   = "https://issuer.example.com"
	testAudience = "sless"
)

var testTime = time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)

// The keys of all tests. Making an RSA key is slow.
var (
	rsaKey   = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	otherRSA = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	ecKey    = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type object = map[string]any

// rsaJWK and ecJWK write keys as RFC 7517 and 7518 have them.
func rsaJWK(kid string, key *rsa.PrivateKey) object {
	return object{
		"kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256",
		"n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
	}
}

func ecJWK(kid string, key *ecdsa.PrivateKey) object {
	point := must(key.PublicKey.Bytes()) // 4, x, y
	return object{"kty": "EC", "crv": "P-256", "kid": kid, "x": encode(point[1:33]), "y": encode(point[33:])}
}

func without(o object, name string) object {
	o = maps.Clone(o)
	delete(o, name)
	return o
}

func with(o object, name string, value any) object {
	o = maps.Clone(o)
	o[name] = value
	return o
}

func encode(b []byte) string {
	return base64.RawURLEncoding.EncodeToString(b)
}

// goodClaims are those of a token that is accepted.
func goodClaims() object {
	return object{
		"iss": testIssuer, "aud": testAudience, "sub": "alice",
		"iat": testTime.Unix() - 60, "nbf": testTime.Unix() - 60, "exp": testTime.Unix() + 600,
	}
}

// sign makes a token without the library that is tested, so that both must have understood RFC 7515. The key is a
// private key, bytes for HMAC, or nil for an empty signature.
func sign(header, claims object, key any) string {
	text := encode(must(json.Marshal(header))) + "." + encode(must(json.Marshal(claims)))
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	switch key := key.(type) {
	case *rsa.PrivateKey:
		signature = must(rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]))
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			panic(err)
		}
		signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	}
	return text + "." + encode(signature)
}

func rs256(kid string, claims object) string {
	return sign(object{"alg": "RS256", "kid": kid, "typ": "JWT"}, claims, rsaKey())
}

// issuer publishes keys over HTTP.
type issuer struct {
	url string

	mu      sync.Mutex
	keys    []object
	handler http.HandlerFunc // instead of the keys, when it is not nil
	fetches int
}

func startIssuer(t *testing.T, keys ...object) *issuer {
	t.Helper()
	i := &issuer{keys: keys}
	server := httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(server.Close)
	i.url = server.URL + keySetPath
	return i
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.fetches++
	handler, body := i.handler, must(json.Marshal(object{"keys": i.keys}))
	i.mu.Unlock()
	if handler != nil {
		handler(w, r)
		return
	}
	_, _ = w.Write(body)
}

func (i *issuer) set(handler http.HandlerFunc, keys ...object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handler, i.keys = handler, keys
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// logs collects what is logged.
type logs struct {
	mu   sync.Mutex
	text string
}

func (l *logs) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text += fmt.Sprintln(prefix, args)
	}, funcr.Options{Verbosity: 10})
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

type fixture struct {
	*issuer
	clock    *clock
	logs     *logs
	verifier *JWT
}

// newFixture is a verifier of an issuer with the keys "rsa" and "ec", when none are given.
func newFixture(t *testing.T, keys ...object) *fixture {
	t.Helper()
	if len(keys) == 0 {
		keys = []object{rsaJWK("rsa", rsaKey()), ecJWK("ec", ecKey())}
	}
	f := &fixture{issuer: startIssuer(t, keys...), clock: &clock{now: testTime}, logs: &logs{}}
	verifier, err := NewJWT(Config{
		Issuer: testIssuer, Audience: testAudience, JWKSURL: f.url, Now: f.clock.Now, Log: f.logs.logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.verifier = verifier
	return f
}
