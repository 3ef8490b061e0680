// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
)

func TestVerifyAccepts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := testTime.Unix()
	tests := map[string]struct {
		token string
		want  string
	}{
		"RS256":              {token: rs256("rsa", goodClaims())},
		"ES256":              {token: sign(object{"alg": "ES256", "kid": "ec"}, goodClaims(), ecKey())},
		"several audiences":  {token: rs256("rsa", with(goodClaims(), "aud", []string{"other", testAudience}))},
		"no nbf":             {token: rs256("rsa", without(goodClaims(), "nbf"))},
		"no iat":             {token: rs256("rsa", without(goodClaims(), "iat"))},
		"expired within":     {token: rs256("rsa", with(goodClaims(), "exp", now-29))},
		"not yet within":     {token: rs256("rsa", with(goodClaims(), "nbf", now+29))},
		"issued just ahead":  {token: rs256("rsa", with(goodClaims(), "iat", now+29))},
		"parts of a second":  {token: rs256("rsa", with(goodClaims(), "exp", float64(now)+0.5))},
		"claims of its own":  {token: rs256("rsa", with(goodClaims(), "roles", object{"admin": true}))},
		"a subject in UTF-8": {token: rs256("rsa", with(goodClaims(), "sub", "пользователь")), want: "пользователь"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := f.verifier.Verify(t.Context(), tc.token)
			if want := firstOf(tc.want, "alice"); err != nil || got != want {
				t.Errorf("Verify = %q, %v, want %q", got, err, want)
			}
		})
	}
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// publicPEM is what an attacker has who signs by HMAC with the public key.
func publicPEM() []byte {
	der := must(x509.MarshalPKIXPublicKey(&rsaKey().PublicKey))
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now, good := testTime.Unix(), goodClaims()
	header := func(alg string) object { return object{"alg": alg, "kid": "rsa"} }
	signed := rs256("rsa", good)
	parts := strings.Split(signed, ".")
	const algorithm, claims = "signature or its algorithm", "lacks one of the claims"
	tests := map[string]struct{ token, want string }{
		"expired":               {rs256("rsa", with(good, "exp", now-30)), "has expired"},
		"not yet valid":         {rs256("rsa", with(good, "nbf", now+31)), "not valid yet"},
		"issued in the future":  {rs256("rsa", with(good, "iat", now+31)), "issued in the future"},
		"no exp":                {rs256("rsa", without(good, "exp")), claims},
		"exp is text":           {rs256("rsa", with(good, "exp", "tomorrow")), "no JWT"},
		"another issuer":        {rs256("rsa", with(good, "iss", testIssuer+"/")), "another issuer"},
		"no issuer":             {rs256("rsa", without(good, "iss")), claims},
		"another audience":      {rs256("rsa", with(good, "aud", []string{"sless2", "SLESS"})), "another audience"},
		"no audience":           {rs256("rsa", without(good, "aud")), claims},
		"empty audience":        {rs256("rsa", with(good, "aud", []string{})), claims},
		"no subject":            {rs256("rsa", without(good, "sub")), "no sub"},
		"empty subject":         {rs256("rsa", with(good, "sub", "")), "no sub"},
		"subject is a number":   {rs256("rsa", with(good, "sub", 1)), "no JWT"},
		"alg none":              {sign(header("none"), good, nil), algorithm},
		"alg None":              {sign(header("None"), good, nil), "not valid"},
		"no alg":                {sign(object{"kid": "rsa"}, good, rsaKey()), "not valid"},
		"HS256, PEM as secret":  {sign(header("HS256"), good, publicPEM()), algorithm},
		"HS256, n as secret":    {sign(header("HS256"), good, rsaKey().N.Bytes()), algorithm},
		"HS256, empty secret":   {sign(header("HS256"), good, []byte{}), algorithm},
		"RS384":                 {sign(header("RS384"), good, rsaKey()), algorithm},
		"PS256":                 {sign(header("PS256"), good, rsaKey()), algorithm},
		"ES256 with RSA key":    {sign(header("ES256"), good, ecKey()), "not valid"},
		"RS256 with EC key":     {sign(object{"alg": "RS256", "kid": "ec"}, good, rsaKey()), algorithm},
		"another key":           {sign(header("RS256"), good, otherRSA()), algorithm},
		"no signature":          {sign(header("RS256"), good, nil), algorithm},
		"claims of another":     {parts[0] + "." + strings.Split(rs256("rsa", with(good, "sub", "bob")), ".")[1] + "." + parts[2], algorithm},
		"no kid":                {sign(object{"alg": "RS256"}, good, rsaKey()), "does not name its key"},
		"empty kid":             {sign(object{"alg": "RS256", "kid": ""}, good, rsaKey()), "does not name its key"},
		"kid is a number":       {sign(object{"alg": "RS256", "kid": 1}, good, rsaKey()), "does not name its key"},
		"long kid":              {sign(object{"alg": "RS256", "kid": strings.Repeat("k", 257)}, good, rsaKey()), "does not name its key"},
		"unknown kid":           {rs256("unknown", good), "does not publish"},
		"crit":                  {sign(with(header("RS256"), "crit", []string{"b64"}), good, rsaKey()), "extension"},
		"embedded key":          {sign(with(header("RS256"), "jwk", rsaJWK("rsa", otherRSA())), good, otherRSA()), algorithm},
		"empty":                 {"", "no JWT"},
		"garbage":               {"garbage", "no JWT"},
		"dots":                  {"..", "no JWT"},
		"four parts":            {signed + ".x", "no JWT"},
		"claims null":           {parts[0] + "." + encode([]byte("null")) + "." + parts[2], algorithm},
		"header null":           {encode([]byte("null")) + "." + parts[1] + "." + parts[2], "not valid"},
		"padding":               {signed + "=", "no JWT"},
		"space":                 {signed + " ", "no JWT"},
		"too long":              {rs256("rsa", with(good, "x", strings.Repeat("x", MaxTokenBytes))), "too long"},
		"key for encryption":    {sign(object{"alg": "RS256", "kid": "enc"}, good, rsaKey()), "not valid"},
		"key of another alg":    {sign(object{"alg": "RS256", "kid": "ps"}, good, rsaKey()), "not valid"},
		"symmetric key in JWKS": {sign(object{"alg": "HS256", "kid": "oct"}, good, []byte("secret")), algorithm},
	}
	f.set(nil, rsaJWK("rsa", rsaKey()), ecJWK("ec", ecKey()), with(rsaJWK("enc", rsaKey()), "use", "enc"),
		with(rsaJWK("ps", rsaKey()), "alg", "PS256"), object{"kty": "oct", "kid": "oct", "k": encode([]byte("secret"))})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			subject, err := f.verifier.Verify(t.Context(), tc.token)
			var invalid *InvalidTokenError
			if subject != "" || !errors.As(err, &invalid) || !strings.Contains(invalid.Problem, tc.want) {
				t.Errorf("Verify = %q, %v, want %q", subject, err, tc.want)
			}
			if err != nil && len(tc.token) > 10 && strings.Contains(err.Error(), tc.token[len(tc.token)-10:]) {
				t.Errorf("the error shows the token: %v", err)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\"\\\r\n") {
				t.Errorf("the error does not fit into a header: %q", err)
			}
		})
	}
}

// TestOtherKeysDoNotMatter has keys in the set that are not supported, as some issuers do.
func TestOtherKeysDoNotMatter(t *testing.T) {
	t.Parallel()
	f := newFixture(t, object{"kty": "EC", "crv": "secp256k1", "kid": "k1", "alg": "ES256K", "x": "AA", "y": "AA"},
		object{"kty": "OKP", "crv": "Ed448", "kid": "ed", "x": "AA"}, object{"kty": "new", "kid": "new"},
		with(rsaJWK("rsa", rsaKey()), "x5u", "https://nobody.invalid/cert"))
	if _, err := f.verifier.Verify(t.Context(), rs256("rsa", goodClaims())); err != nil {
		t.Error(err)
	}
}

func TestNewJWT(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cfg       Config
		wantURL   string
		wantError string
	}{
		"default":         {cfg: Config{Issuer: "https://i.example.com"}, wantURL: "https://i.example.com/.well-known/jwks.json"},
		"slash":           {cfg: Config{Issuer: "https://i.example.com/a/"}, wantURL: "https://i.example.com/a/.well-known/jwks.json"},
		"given":           {cfg: Config{Issuer: "any name", JWKSURL: "http://keys/x"}, wantURL: "http://keys/x"},
		"issuer no URL":   {cfg: Config{Issuer: "any name"}, wantError: "must be an https URL"},
		"another scheme":  {cfg: Config{Issuer: "i", JWKSURL: "file:///etc/passwd"}, wantError: "must be an https URL"},
		"no host":         {cfg: Config{Issuer: "i", JWKSURL: "https:///x"}, wantError: "must be an https URL"},
		"credentials":     {cfg: Config{Issuer: "i", JWKSURL: "https://a:secret@b/"}, wantError: "must not hold credentials"},
		"nothing to read": {cfg: Config{Issuer: "i", JWKSURL: "https://b\x00/"}, wantError: "must be an https URL"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.cfg.Audience, tc.cfg.Log = testAudience, logr.Discard()
			got, err := tc.cfg.keySetURL()
			_, newErr := NewJWT(tc.cfg)
			if tc.wantError == "" {
				if err != nil || newErr != nil || got != tc.wantURL {
					t.Errorf("got %q, %v, %v, want %q", got, err, newErr, tc.wantURL)
				}
				return
			}
			if newErr == nil || !strings.Contains(newErr.Error(), tc.wantError) || strings.Contains(newErr.Error(), "secret") {
				t.Errorf("got error %v, want %q", newErr, tc.wantError)
			}
		})
	}
	if _, err := NewJWT(Config{}); err == nil || !strings.Contains(err.Error(), "issuer, audience") {
		t.Errorf("without settings: %v", err)
	}
	if diff := cmp.Diff([]string{"audience"}, (Config{Issuer: "i"}).Missing()); diff != "" {
		t.Error(diff)
	}
}

func TestPlainHTTPIsLogged(t *testing.T) {
	t.Parallel()
	if f := newFixture(t); !strings.Contains(f.logs.String(), "plain HTTP") {
		t.Errorf("logged:\n%s", f.logs)
	}
}

func TestFromRequest(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		headers     []string
		want        string
		wantInvalid string
	}{
		"token":        {headers: []string{"Bearer abc"}, want: "abc"},
		"lower case":   {headers: []string{"bearer abc"}, want: "abc"},
		"spaces":       {headers: []string{"Bearer   abc"}, want: "abc"},
		"none":         {},
		"empty":        {headers: []string{""}},
		"scheme alone": {headers: []string{"Bearer "}},
		"basic":        {headers: []string{"Basic abc"}},
		"no scheme":    {headers: []string{"abc"}},
		"two":          {headers: []string{"Bearer abc", "Bearer def"}, wantInvalid: "more than one"},
		"longest":      {headers: []string{"Bearer " + strings.Repeat("x", MaxTokenBytes)}, want: strings.Repeat("x", MaxTokenBytes)},
		"too long":     {headers: []string{"Bearer " + strings.Repeat("x", MaxTokenBytes+1)}, wantInvalid: "too long"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/?access_token=abc", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header["Authorization"] = tc.headers
			got, err := FromRequest(r)
			var invalid *InvalidTokenError
			switch {
			case tc.want != "":
				if err != nil || got != tc.want {
					t.Errorf("got %q, %v", got, err)
				}
			case tc.wantInvalid != "":
				if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tc.wantInvalid) {
					t.Errorf("got %q, %v", got, err)
				}
			case !errors.Is(err, ErrNoToken):
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestUnsigned(t *testing.T) {
	t.Parallel()
	u := NewUnsigned()
	tests := map[string]struct {
		token     string
		wantError string
	}{
		"alg none":    {token: sign(object{"alg": "none"}, object{"sub": "alice"}, nil)},
		"expired":     {token: rs256("rsa", with(goodClaims(), "exp", 1))},
		"no subject":  {token: sign(object{"alg": "none"}, object{}, nil), wantError: "no sub"},
		"claims null": {token: encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte("null")) + ".", wantError: "no sub"},
		"garbage":     {token: "garbage", wantError: "no JWT"},
		"too long":    {token: strings.Repeat("x", MaxTokenBytes+1), wantError: "too long"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := u.Verify(t.Context(), tc.token)
			var invalid *InvalidTokenError
			switch {
			case tc.wantError == "" && (err != nil || got != "alice"):
				t.Errorf("got %q, %v", got, err)
			case tc.wantError != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), tc.wantError)):
				t.Errorf("got %q, %v, want %q", got, err, tc.wantError)
			}
		})
	}
}

func TestUnsignedWarnsAgainAndAgain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var out logs
	again := make(chan time.Time)
	done := make(chan struct{})
	go func() {
		defer close(done)
		warnUntil(logr.NewContext(ctx, out.logger()), again)
	}()
	again <- testTime
	again <- testTime
	cancel()
	<-done
	if got := strings.Count(out.String(), "TOKENS ARE NOT VERIFIED"); got < 2 {
		t.Errorf("warned %d times:\n%s", got, &out)
	}
}

// FuzzVerify looks for tokens that make the verifier panic, or that are accepted although they are not the one that was
// signed.
func FuzzVerify(f *testing.F) {
	signed := rs256("rsa", goodClaims())
	f.Add(signed)
	f.Add("..")
	f.Add(sign(object{"alg": "none"}, goodClaims(), nil))
	f.Add(encode([]byte("null")) + "." + encode([]byte("null")) + ".")
	verifier := must(NewJWT(Config{
		Issuer: testIssuer, Audience: testAudience, JWKSURL: "http://127.0.0.1:1/",
		Now: func() time.Time { return testTime }, Log: logr.Discard(),
	}))
	unsigned := NewUnsigned()
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := verifier.Verify(t.Context(), token); err == nil {
			t.Errorf("accepted %q without any key", token)
		}
		_, _ = unsigned.Verify(t.Context(), token)
	})
}
