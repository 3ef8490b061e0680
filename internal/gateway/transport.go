// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

const (
	// dialTimeout bounds one attempt to connect. It leaves room for one lost SYN.
	dialTimeout = 3 * time.Second
	// firstBackoff and maxBackoff bound the pauses between attempts to connect. The longest is short, because a caller
	// waits for a pod that becomes ready within seconds.
	firstBackoff = 10 * time.Millisecond
	maxBackoff   = 250 * time.Millisecond
	// maxStaleConns bounds the idle connections that one call tries which the upstream had closed already.
	maxStaleConns = 64

	maxIdleConns        = 4096
	maxIdleConnsPerHost = 256
	// idleConnTimeout is shorter than what servers grant, so that the gateway closes first.
	idleConnTimeout = 55 * time.Second
	// maxUpstreamHeader is what Go's own server accepts from a client.
	maxUpstreamHeader = 1 << 20
	// expectTimeout is how long a client's "Expect: 100-continue" is waited for at the upstream.
	expectTimeout = time.Second
)

// newTransport returns the transport for upstreams. It changes nothing: no compression, no proxy, no HTTP/2.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, &dialError{err: err}
			}
			return newCountedConn(conn), nil
		},
		DisableCompression:     true,
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    maxIdleConnsPerHost,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxUpstreamHeader,
		ExpectContinueTimeout:  expectTimeout,
	}
}

// dialError is a failure to connect: nothing of the request was sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// emptyBody is a body without content. It keeps http.Transport from repeating a request on its own: that would call a
// function twice when the first connection broke after the function had begun.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// retrier tries calls again that never reached the function: no connection could be made, or the connection turned out
// to be closed before a byte was written.
type retrier struct {
	next http.RoundTripper
	// window bounds the time that one call spends on connecting. A function's own timeout bounds it too.
	window time.Duration
}

// RoundTrip sends the request of the call in req's context.
func (t *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	c := callFrom(req.Context())
	pause := backoff{next: firstBackoff}
	var window <-chan time.Time // set by the first failure, so that calls that go well need no timer
	for stale := 0; ; {
		c.begin()
		if c.body != nil {
			c.body.rewind()
		}
		res, err := t.next.RoundTrip(attempt(req, c.body))
		if err == nil || req.Context().Err() != nil || !c.untouched() {
			return res, err
		}
		if dialFailed := new(dialError); !errors.As(err, &dialFailed) {
			if stale++; !c.connected() || stale > maxStaleConns {
				return nil, err
			}
			continue // the next connection may be a fresh one
		}
		if window == nil {
			timer := time.NewTimer(min(t.window, c.route.Timeout))
			defer timer.Stop()
			window = timer.C
		}
		if !pause.wait(req.Context(), window) {
			return nil, err
		}
	}
}

// attempt returns a copy of req for one attempt: the transport uses up the body that it is given.
func attempt(req *http.Request, body *requestBody) *http.Request {
	again := *req
	switch {
	case body != nil:
		again.Body = body
	case req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodOptions:
		again.Body = emptyBody{}
	}
	return &again
}

// backoff is a growing pause.
type backoff struct{ next time.Duration }

// wait pauses. It reports false when the window closed or ctx ended.
func (b *backoff) wait(ctx context.Context, window <-chan time.Time) bool {
	// Half of the pause is random, so that calls that wait for the same pod do not arrive at once.
	timer := time.NewTimer(b.next/2 + rand.N(b.next/2+1))
	defer timer.Stop()
	b.next = min(2*b.next, maxBackoff)
	select {
	case <-timer.C:
		return true
	case <-window:
		return false
	case <-ctx.Done():
		return false
	}
}
