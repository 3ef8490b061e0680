// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// StallError says that a server stopped in the middle of a body. To whoever asks, it is a timeout like any other.
type StallError struct {
	// Limit is how long it was waited for.
	Limit time.Duration
}

func (e *StallError) Error() string {
	return fmt.Sprintf("the server has taken or given no byte for %s", e.Limit)
}

// Timeout is true.
func (e *StallError) Timeout() bool { return true }

// Unwrap gives context.DeadlineExceeded.
func (e *StallError) Unwrap() error { return context.DeadlineExceeded }

// stallGuard ends a request with a *StallError when no byte of a body moves for the limit. Time in which it is not the
// server that is waited for does not count: a slow source of what is sent, or a slow reader of what is received.
type stallGuard struct {
	next  *http.Transport
	limit time.Duration
}

func (g *stallGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	stall := func() { cancel(&StallError{Limit: g.limit}) }
	var answered atomic.Bool
	watch := stoppedTimer(func() {
		// A server may answer before it has taken everything, and the rest is read later or never.
		if !answered.Load() {
			stall()
		}
	})
	resp, err := g.next.RoundTrip(g.guardSending(req.WithContext(ctx), watch))
	answered.Store(true)
	watch.Stop()
	if err != nil {
		err = explainStall(ctx, err)
		cancel(nil)
		return nil, err
	}
	if resp.Body == http.NoBody {
		cancel(nil)
		return resp, nil
	}
	resp.Body = &receivedBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, limit: g.limit, watch: stoppedTimer(stall)}
	return resp, nil
}

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (g *stallGuard) CloseIdleConnections() { g.next.CloseIdleConnections() }

// guardSending watches the body of a request, which is the caller's to change.
func (g *stallGuard) guardSending(req *http.Request, watch *time.Timer) *http.Request {
	if req.Body == nil || req.Body == http.NoBody {
		return req
	}
	req.Body = &sentBody{ReadCloser: req.Body, limit: g.limit, watch: watch}
	if again := req.GetBody; again != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return &sentBody{ReadCloser: body, limit: g.limit, watch: watch}, nil
		}
	}
	return req
}

func stoppedTimer(f func()) *time.Timer {
	timer := time.AfterFunc(time.Hour, f)
	timer.Stop()
	return timer
}

// explainStall gives the stall that ended a request instead of what came of it.
func explainStall(ctx context.Context, err error) error {
	if stall, ok := errors.AsType[*StallError](context.Cause(ctx)); ok {
		return stall
	}
	return err
}

// sentBody is watched from one read to the next: between them the server takes what was read.
type sentBody struct {
	io.ReadCloser

	limit time.Duration
	watch *time.Timer
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.watch.Stop()
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		// What is left is to send the last bytes, which nothing else bounds, and then the wait for the answer, which has its
		// own limit.
		b.watch.Reset(2 * b.limit)
	} else {
		b.watch.Reset(b.limit)
	}
	return n, err
}

// receivedBody is watched while it is read.
type receivedBody struct {
	io.ReadCloser

	ctx    context.Context // that of the request, which goes on until the body is closed
	cancel context.CancelCauseFunc
	limit  time.Duration
	watch  *time.Timer
}

func (b *receivedBody) Read(p []byte) (int, error) {
	b.watch.Reset(b.limit)
	n, err := b.ReadCloser.Read(p)
	b.watch.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = explainStall(b.ctx, err)
	}
	return n, err
}

func (b *receivedBody) Close() error {
	err := b.ReadCloser.Close()
	b.watch.Stop()
	b.cancel(nil)
	return err
}
