// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/go-logr/logr"
	"github.com/golang-jwt/jwt/v5"
)

const (
	// leeway is how far the clocks of issuer and gateway may be apart.
	leeway = 30 * time.Second
	// maxKeyID bounds the name of a key, in bytes.
	maxKeyID = 256
	// keySetPath is where an issuer publishes its keys when nothing else is said.
	keySetPath = "/.well-known/jwks.json"
)

// algorithms are those that a token may be signed with. All are asymmetric: with a symmetric one, everybody who can
// read the issuer's public keys could sign.
var algorithms = []string{jwt.SigningMethodRS256.Alg(), jwt.SigningMethodES256.Alg()}

// Config says whose tokens are accepted.
type Config struct {
	// Issuer is what the claim iss must be.
	Issuer string
	// Audience is what the claim aud must hold. It keeps out tokens that were made for another service.
	Audience string
	// JWKSURL is where the issuer publishes its keys. The default is <issuer>/.well-known/jwks.json.
	JWKSURL string
	// Now is the clock that tokens are judged by. The default is the machine's. It may be set while it runs.
	Now func() time.Time
	// Log is where failures to fetch keys are reported.
	Log logr.Logger
}

// Missing names the settings without which no token can be judged.
func (c Config) Missing() []string {
	var missing []string
	if c.Issuer == "" {
		missing = append(missing, "issuer")
	}
	if c.Audience == "" {
		missing = append(missing, "audience")
	}
	return missing
}

// JWT verifies tokens that an issuer signed.
type JWT struct {
	parser *jwt.Parser
	keys   keyfunc.Keyfunc
}

var _ Verifier = (*JWT)(nil)

// NewJWT returns a verifier. Keys are fetched when the first token comes, not here: the gateway starts also while the
// issuer is away.
func NewJWT(cfg Config) (*JWT, error) {
	if missing := cfg.Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("not set: %s", strings.Join(missing, ", "))
	}
	keySetURL, err := cfg.keySetURL()
	if err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	keys, err := keyfunc.New(keyfunc.Options{
		Storage: newKeySet(keySetURL, cfg.Now, cfg.Log),
		// Keys for encryption are not for signatures. Most issuers say what a key is for, and it need not be said.
		UseWhitelist: []jwkset.USE{jwkset.UseSig, ""},
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the key set: %w", err)
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods(algorithms),
		jwt.WithIssuer(cfg.Issuer),
		jwt.WithAudience(cfg.Audience),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(cfg.Now),
		jwt.WithStrictDecoding(),
	)
	return &JWT{parser: parser, keys: keys}, nil
}

func (c Config) keySetURL() (string, error) {
	raw := c.JWKSURL
	if raw == "" {
		raw = strings.TrimSuffix(c.Issuer, "/") + keySetPath
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("the URL of the key set must be an https URL, or an http URL inside the cluster")
	case u.User != nil:
		return "", errors.New("the URL of the key set must not hold credentials")
	case u.Scheme == "http":
		c.Log.Info("Fetching the issuer's keys over plain HTTP: who controls that network can sign tokens", "url", raw)
	}
	return raw, nil
}

// Verify checks the signature, the times, the issuer and the audience of a token, see Verifier.
func (v *JWT) Verify(ctx context.Context, token string) (string, error) {
	if len(token) > MaxTokenBytes {
		return "", invalid("the token is too long")
	}
	claims := &jwt.RegisteredClaims{}
	if _, err := v.parser.ParseWithClaims(token, claims, v.keyOf(ctx)); err != nil {
		return "", explain(err)
	}
	if claims.Subject == "" {
		return "", invalid("the token has no sub")
	}
	return claims.Subject, nil
}

// keyOf finds the key that a token names. The parser has checked the algorithm before it asks.
func (v *JWT) keyOf(ctx context.Context) jwt.Keyfunc {
	find := v.keys.KeyfuncCtx(ctx)
	return func(token *jwt.Token) (any, error) {
		// An extension that must be understood (RFC 7515, section 4.1.11). None is.
		if _, ok := token.Header["crit"]; ok {
			return nil, invalid("the token needs an extension that is not supported")
		}
		// Without a name every key would have to be tried, and no new key would ever be fetched.
		if kid, ok := token.Header[jwkset.HeaderKID].(string); !ok || kid == "" || len(kid) > maxKeyID {
			return nil, invalid("the token does not name its key (kid)")
		}
		return find(token)
	}
}

// explain turns an error of the parser into one of this package, whose text is fit for everybody's eyes.
func explain(err error) error {
	var known *InvalidTokenError
	switch {
	case errors.Is(err, ErrKeysUnavailable):
		return ErrKeysUnavailable
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ErrKeysUnavailable // the client did not wait for the keys
	case errors.As(err, &known):
		return known
	}
	for _, known := range problems {
		if errors.Is(err, known.err) {
			return invalid(known.problem)
		}
	}
	return invalid("the token is not valid")
}

// problems are looked through in order: what makes the others meaningless comes first.
var problems = []struct {
	err     error
	problem string
}{
	{jwkset.ErrKeyNotFound, "the token is signed with a key that its issuer does not publish"},
	{jwt.ErrTokenMalformed, "the token is no JWT"},
	{jwt.ErrTokenSignatureInvalid, "the token's signature or its algorithm is not accepted"},
	{jwt.ErrTokenRequiredClaimMissing, "the token lacks one of the claims exp, iss, aud"},
	{jwt.ErrTokenInvalidIssuer, "the token is from another issuer"},
	{jwt.ErrTokenInvalidAudience, "the token is for another audience"},
	{jwt.ErrTokenExpired, "the token has expired"},
	{jwt.ErrTokenNotValidYet, "the token is not valid yet"},
	{jwt.ErrTokenUsedBeforeIssued, "the token was issued in the future"},
}
