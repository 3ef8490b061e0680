// SPDX-License-Identifier: Apache-2.0

package invoke

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/naeel/sless/runtimes/watchdog/internal/worker"
)

const (
	// cancelGrace is how long a stream that ran into its timeout may take to end by itself before its worker is killed.
	cancelGrace = time.Second
	// crashGrace is how long the exit status of a worker that broke a call is waited for.
	crashGrace = 2 * time.Second
)

var (
	errTimeout = errors.New("the call ran into its timeout")
	errClosed  = errors.New("the caller has gone away")
)

// call is one request on its way through the worker.
type call struct {
	*Handler
	w        http.ResponseWriter
	r        *http.Request
	id       string
	number   uint64
	deadline time.Time

	body  *upload
	lease *worker.Lease
	// unwatch ends the passing on of the caller's leaving.
	unwatch func() bool
	// answering is set once the answer has begun, timedOut when the deadline passed after that.
	answering, timedOut atomic.Bool
}

// upload is the body of a request, which remembers whether it came in completely.
type upload struct {
	io.Reader
	complete atomic.Bool
}

func newUpload(w http.ResponseWriter, r *http.Request, limit int64) *upload {
	u := &upload{Reader: http.MaxBytesReader(w, r.Body, limit)}
	u.complete.Store(r.ContentLength == 0)
	return u
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		u.complete.Store(true)
	}
	return n, err
}

// run serves the call. Its context ends at the deadline, but not when the caller leaves: the concurrency slot and the
// deadline hold until the handler has really ended, so that callers who come and go cannot pile up running handlers.
func (c *call) run() outcome {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.r.Context()))
	defer cancel(nil)
	c.body = newUpload(c.w, c.r, c.MaxBodyBytes)
	timer := time.AfterFunc(c.deadline.Sub(c.Now()), func() { c.expire(cancel) })
	defer timer.Stop()

	answer, err := c.send(ctx)
	if c.lease != nil {
		defer c.Workers.Release(c.lease)
		defer c.unwatch()
	}
	if err != nil {
		return c.fail(err)
	}
	defer answer.Close()
	return c.copy(ctx, answer)
}

// expire ends the call at its deadline. A stream is asked to stop first, since a long stream is no stuck handler.
func (c *call) expire(cancel context.CancelCauseFunc) {
	control := http.NewResponseController(c.w)
	if !c.body.complete.Load() {
		_ = control.SetReadDeadline(time.Unix(1, 0)) // the upload is what is waited for
	}
	if !c.answering.Load() {
		cancel(errTimeout)
		return
	}
	c.timedOut.Store(true)
	_ = control.SetWriteDeadline(time.Unix(1, 0))
	c.lease.Cancel(c.number)
	time.AfterFunc(cancelGrace, func() { cancel(errTimeout) })
}

// send passes the request to a worker, to the next one if the first was gone before it could take the call.
func (c *call) send(ctx context.Context) (*worker.Answer, error) {
	var body io.Reader
	if !c.body.complete.Load() {
		body = c.body
	}
	head := newHead(c.r, c.id, c.number, body != nil)
	head.Deadline = c.deadline.UnixMilli()
	for {
		lease, err := c.acquire(ctx)
		if err != nil {
			return nil, err
		}
		c.lease = lease
		c.unwatch = context.AfterFunc(c.r.Context(), func() { lease.Cancel(c.number) })
		answer, err := lease.Call(ctx, head, body)
		if err == nil {
			c.answering.Store(true)
			return answer, nil
		}
		if !errors.Is(err, worker.ErrNotSent) {
			return nil, err
		}
		c.unwatch()
		select {
		case <-lease.Done():
		case <-ctx.Done():
		}
		c.lease = nil
		c.Workers.Release(lease)
	}
}

// acquire waits for a worker as long as the caller waits.
func (c *call) acquire(ctx context.Context) (*worker.Lease, error) {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(c.r.Context(), func() { stop(errClosed) })()
	return c.Workers.Acquire(waiting)
}

// fail answers a call that has no answer of the handler.
func (c *call) fail(err error) outcome {
	var handlerErr *worker.HandlerError
	var uploadErr *worker.UploadError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &handlerErr):
		return c.refuse(handlerErr.Status, handlerErr.Message)
	case errors.As(err, &tooLarge):
		c.w.Header().Set("Connection", "close")
		return c.refuse(http.StatusRequestEntityTooLarge, c.tooLarge())
	case errors.Is(err, errTimeout) || errors.As(err, &uploadErr) && !c.Now().Before(c.deadline):
		return c.failTimeout()
	case errors.Is(err, errClosed) || errors.As(err, &uploadErr):
		return outcome{code: statusClientGone, abort: true}
	}
	return c.failCrash(err)
}

func (c *call) failTimeout() outcome {
	switch {
	case !c.body.complete.Load() && c.lease != nil:
		c.w.Header().Set("Connection", "close") // a read deadline also looks as if the caller had gone away
		return refuse(c.w, c.id, http.StatusRequestTimeout, fmt.Sprintf("the body did not arrive within %s", c.Timeout))
	case c.lease == nil:
		c.w.Header().Set("Retry-After", "1")
		return c.refuse(http.StatusServiceUnavailable, "the function's process is being started")
	}
	c.Log.Error("Replacing the worker, the handler ran into its timeout", "requestId", c.id, "timeout", c.Timeout)
	c.Workers.Retire(c.lease)
	return c.refuse(http.StatusGatewayTimeout, fmt.Sprintf("the function did not answer within %s", c.Timeout))
}

// failCrash answers a call whose worker broke the connection, which it does only by ending.
func (c *call) failCrash(err error) outcome {
	text := "the function's process broke the connection during the call"
	select {
	case <-c.lease.Done():
		text = c.lease.Crash().Error()
	case <-time.After(crashGrace):
		c.Workers.Retire(c.lease)
	}
	c.Log.Error("Failing the call", "requestId", c.id, "cause", text, "err", err)
	return c.refuse(http.StatusBadGateway, text)
}

func (c *call) refuse(code int, text string) outcome {
	if c.r.Context().Err() != nil {
		return outcome{code: statusClientGone, abort: true}
	}
	return refuse(c.w, c.id, code, text)
}

// copy passes the answer on, chunk by chunk. When the caller cannot take it any more, the rest is read and dropped
// until the handler has ended.
func (c *call) copy(ctx context.Context, answer *worker.Answer) outcome {
	headers := c.w.Header()
	maps.Copy(headers, answer.Headers)
	headers.Set(RequestIDHeader, c.id)
	headers["Server-Timing"] = append(headers["Server-Timing"], serverTimings(c.deadline.Add(-c.Timeout), c.Now(), c.load.Load())...)
	if _, ok := headers["Content-Type"]; !ok {
		headers["Content-Type"] = nil // never guess
	}
	bodiless := c.r.Method == http.MethodHead || answer.Status == http.StatusNoContent ||
		answer.Status == http.StatusNotModified
	if answer.Size >= 0 && (!bodiless || c.r.Method == http.MethodHead) {
		headers.Set("Content-Length", strconv.FormatInt(answer.Size, 10))
	}
	c.w.WriteHeader(answer.Status)
	var to io.Writer = c.w
	if bodiless {
		to = io.Discard
		if answer.Size < 0 {
			c.lease.Cancel(c.number)
		}
	}
	sent, err := c.copyChunks(to, answer)
	return c.finish(ctx, answer, sent, err)
}

// freshFor is how long after it has loaded the handler a replica tells callers how long that took: those whose call it was
// started for are among the first.
const freshFor = 5 * time.Second

// serverTimings says what the time of a call went into. last is nil as long as nobody knows it.
func serverTimings(began, now time.Time, last *load) []string {
	timings := []string{serverTiming("handler", now.Sub(began))}
	if last != nil && began.Sub(last.at) < freshFor {
		timings = append(timings, serverTiming("load", last.took))
	}
	return timings
}

// serverTiming tells the caller how long a part of the call took.
func serverTiming(part string, took time.Duration) string {
	const decimals = 1
	return part + ";dur=" + strconv.FormatFloat(float64(took)/float64(time.Millisecond), 'f', decimals, 64)
}

// finish judges how copying ended. sent tells whether all that was read reached the caller.
func (c *call) finish(ctx context.Context, answer *worker.Answer, sent bool, err error) outcome {
	if ctx.Err() != nil {
		c.Log.Error("Replacing the worker, a stream did not end at its timeout", "requestId", c.id)
		c.Workers.Retire(c.lease)
	}
	switch {
	case c.timedOut.Load() || ctx.Err() != nil:
		c.Log.Error("Breaking off an answer at its timeout", "requestId", c.id, "timeout", c.Timeout)
		return outcome{code: http.StatusGatewayTimeout, abort: true}
	case !sent || c.r.Context().Err() != nil:
		return outcome{code: statusClientGone, abort: true}
	case err != nil:
		c.Log.Error("Breaking off an answer, its handler failed", "requestId", c.id, "err", err)
		return outcome{code: http.StatusBadGateway, abort: true}
	}
	return outcome{code: answer.Status}
}

// copyChunks copies until the end of the answer. The error is the worker's; sent is false once a write failed.
func (c *call) copyChunks(to io.Writer, answer *worker.Answer) (sent bool, err error) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	flusher := http.NewResponseController(c.w)
	if answer.Size < 0 {
		_ = flusher.Flush() // the head of a stream does not wait for its first chunk
	}
	for sent = true; ; {
		n, err := answer.Read(*buffer)
		if n > 0 && sent {
			if _, writeErr := to.Write((*buffer)[:n]); writeErr != nil {
				sent = false
				c.lease.Cancel(c.number)
			} else if answer.Size < 0 {
				_ = flusher.Flush()
			}
		}
		if errors.Is(err, io.EOF) {
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
	}
}
