// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// Causes for which the gateway itself ends a call.
var (
	errTimeout       = errors.New("the function did not answer in time")
	errClientStalled = errors.New("the client stopped sending its body")
	errStopping      = errors.New("the gateway is stopping")
)

// call is one request on its way to a function. It travels in the request's context.
type call struct {
	route    Route
	path     string // what the function gets to see, escaped
	prefix   string // what was cut off before it
	id       string
	observed *observation
	body     *requestBody // nil when the request has none

	cancel      context.CancelCauseFunc
	keepReading func() bool // lets the body be, although the context ends
	limit       time.Duration

	mu       sync.Mutex
	timer    *time.Timer
	upload   *time.Timer // nil when the request has no body
	answered bool
	ranOut   bool

	// conn is the connection that the current attempt got, and written what had been sent on it before.
	conn    atomic.Pointer[countedConn]
	written atomic.Int64
}

type callKey struct{}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// start puts c into a context that ends when the function does not begin to answer in time. While the client is still
// sending, each part of the body starts the time afresh: a slow client is not a slow function. The whole of the body
// may take maxUpload.
func (c *call) start(parent context.Context, limit, maxUpload time.Duration) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, callKey{}, c))
	c.cancel, c.limit = cancel, limit
	if c.body != nil {
		c.body.progress = c.progressed
		c.keepReading = context.AfterFunc(ctx, c.body.interrupt)
		c.upload = time.AfterFunc(maxUpload, c.uploadExpired)
	}
	c.timer = time.AfterFunc(limit, c.expired)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: c.gotConn})
}

// end releases what start took.
func (c *call) end() {
	c.markAnswered()
	if c.keepReading != nil {
		c.keepReading()
	}
	c.cancel(context.Canceled)
}

// markAnswered stops the clocks, because the header of the answer is there. A stream may then last as long as it likes.
// It reports false when time had run out before.
func (c *call) markAnswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = true
	c.timer.Stop()
	if c.upload != nil {
		c.upload.Stop()
	}
	return !c.ranOut
}

func (c *call) progressed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.answered && c.timer.Stop() {
		c.timer.Reset(c.limit)
	}
}

func (c *call) expired() {
	if c.body != nil && c.body.waitsForClient() {
		c.giveUp(errClientStalled)
		return
	}
	c.giveUp(errTimeout)
}

// uploadExpired ends a call whose client trickles its body. Once everything was sent, only the function's time counts.
func (c *call) uploadExpired() {
	if !c.body.sawEOF.Load() {
		c.giveUp(errClientStalled)
	}
}

func (c *call) giveUp(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered {
		return
	}
	c.ranOut = true
	c.cancel(cause)
}

// begin forgets the connection of an earlier attempt.
func (c *call) begin() {
	c.conn.Store(nil)
}

func (c *call) gotConn(info httptrace.GotConnInfo) {
	if conn, ok := info.Conn.(*countedConn); ok {
		conn.wasIdle.Store(info.Reused)
		c.conn.Store(conn)
		c.written.Store(conn.written.Load())
	}
}

// connected reports whether the current attempt got a connection.
func (c *call) connected() bool {
	return c.conn.Load() != nil
}

// untouched reports whether no byte of the request left the gateway on the current attempt, and whether all that was
// taken of the client's body can be given again. Only then can the call be tried again without the function seeing it
// twice.
func (c *call) untouched() bool {
	if c.body != nil && !c.body.replayable() {
		return false
	}
	conn := c.conn.Load()
	return conn == nil || conn.written.Load() == c.written.Load()
}
