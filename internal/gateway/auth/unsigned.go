// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/golang-jwt/jwt/v5"
)

// Unsigned believes every token: it reads the subject and checks nothing. It is for a perimeter in which something else
// has verified the token before, and in which nobody can reach the gateway past that.
type Unsigned struct{ parser *jwt.Parser }

var _ Verifier = (*Unsigned)(nil)

// warnInterval is how often the log says that tokens are not verified.
const warnInterval = time.Hour

// NewUnsigned returns a verifier that verifies nothing.
func NewUnsigned() *Unsigned {
	return &Unsigned{parser: jwt.NewParser()}
}

// Verify reads the subject of a token, see Verifier.
func (u *Unsigned) Verify(_ context.Context, token string) (string, error) {
	if len(token) > MaxTokenBytes {
		return "", invalid("the token is too long")
	}
	claims := &jwt.RegisteredClaims{}
	if _, _, err := u.parser.ParseUnverified(token, claims); err != nil {
		return "", explain(err)
	}
	if claims.Subject == "" {
		return "", invalid("the token has no sub")
	}
	return claims.Subject, nil
}

// Warn says in the log of ctx that tokens are not verified, now and every hour until ctx ends.
func (u *Unsigned) Warn(ctx context.Context) {
	ticker := time.NewTicker(warnInterval)
	defer ticker.Stop()
	warnUntil(ctx, ticker.C)
}

func warnUntil(ctx context.Context, again <-chan time.Time) {
	for {
		logr.FromContextOrDiscard(ctx).Info("WARNING: TOKENS ARE NOT VERIFIED (--auth=unsigned). " +
			"EVERYBODY WHO REACHES THE API PORT CAN ACT AS ANY TENANT")
		select {
		case <-ctx.Done():
			return
		case <-again:
		}
	}
}
