// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// ErrNotSent is wrapped by errors of Process.Call when the handler has surely not been called and nothing of the body
// was used up, so that the call can go to another worker.
var ErrNotSent = errors.New("the call was not sent")

// UploadError is a failure to read the body of a call; the handler was not called.
type UploadError struct{ Err error }

func (e *UploadError) Error() string { return "reading the body: " + e.Err.Error() }
func (e *UploadError) Unwrap() error { return e.Err }

const (
	// chunkSize is the most of a body that is held at once, in each direction.
	chunkSize = 32 << 10
	// maxIdleConns bounds the connections kept for later calls.
	maxIdleConns = 256
)

// chunks holds buffers for a data frame and the end frame that may follow it.
var chunks = sync.Pool{New: func() any { b := make([]byte, frameHeaderSize+chunkSize+frameHeaderSize); return &b }}

// conn is one connection to the worker. It serves one call at a time.
type conn struct {
	net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

// connPool keeps idle connections of one worker.
type connPool struct {
	path string

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

func (p *connPool) get(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		c := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "unix", p.path)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: raw, r: bufio.NewReaderSize(raw, chunkSize), w: bufio.NewWriter(raw)}, nil
}

func (p *connPool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdleConns {
		_ = c.Close()
		return
	}
	p.idle = append(p.idle, c)
}

func (p *connPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
}

// call sends one call and reads the head of its answer. The end of ctx breaks the connection, also while the answer's
// body is read. body may be nil.
func (p *connPool) call(ctx context.Context, head *Head, body io.Reader) (*Answer, error) {
	c, err := p.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	answer := &Answer{conn: c, pool: p, Size: -1}
	answer.stop = context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	if err = c.send(head, body); err == nil {
		err = answer.readHead()
	}
	if err != nil {
		answer.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return answer, nil
}

func (c *conn) send(head *Head, body io.Reader) error {
	data, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encoding the call: %w", err)
	}
	err = writeFrame(c.w, kindHead, data)
	if body == nil && err == nil {
		err = writeFrame(c.w, kindEnd, nil)
	}
	if err == nil {
		err = c.w.Flush()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if body == nil {
		return nil
	}
	return c.sendBody(body)
}

func (c *conn) sendBody(body io.Reader) error {
	pooled := chunks.Get().(*[]byte)
	defer chunks.Put(pooled)
	buffer := *pooled
	for {
		n, err := body.Read(buffer[frameHeaderSize : frameHeaderSize+chunkSize])
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return &UploadError{Err: err}
		}
		out := buffer[:0]
		if n > 0 {
			out = appendFrameHeader(out, kindData, n)[:frameHeaderSize+n]
		}
		if end {
			out = appendFrameHeader(out, kindEnd, 0)
		}
		if len(out) > 0 {
			if _, err := c.Write(out); err != nil {
				return fmt.Errorf("sending the body: %w", err)
			}
		}
		if end {
			return nil
		}
	}
}

func (c *conn) cancel(number uint64) error {
	if err := writeFrame(c.w, kindCancel, strconv.AppendUint(nil, number, 10)); err != nil {
		return err
	}
	return c.w.Flush()
}

// Answer is the handler's answer. Its body is read as the worker sends it. Close it after use.
type Answer struct {
	Status  int
	Headers http.Header
	// Size of the body, -1 for a stream whose chunks are to be passed on as they come.
	Size int64

	conn *conn
	pool *connPool
	stop func() bool
	left int64 // unread bytes of the current data frame
	done bool  // the end frame was read: the connection is free for another call
}

func (a *Answer) readHead() error {
	kind, size, err := readFrameHeader(a.conn.r)
	if err != nil {
		return err
	}
	if kind == kindFail {
		return a.readFailure(size)
	}
	if kind != kindHead {
		return fmt.Errorf("the worker sent frame %q, want a head", kind)
	}
	var head answerHead
	if err := readJSON(a.conn.r, size, &head); err != nil {
		return fmt.Errorf("reading the head of the answer: %w", err)
	}
	if head.Size != nil {
		a.Size = *head.Size
	}
	a.Status, a.Headers, err = head.check()
	return err
}

func (a *Answer) readFailure(size int64) error {
	failure := &HandlerError{}
	if err := readJSON(a.conn.r, size, failure); err != nil {
		return fmt.Errorf("reading the failure of the call: %w", err)
	}
	a.done = true
	return failure
}

// Read returns at most the rest of the chunk that the worker sent last. It ends with io.EOF, with a HandlerError when
// the handler failed after its first chunk, or with another error when the worker broke the connection.
func (a *Answer) Read(p []byte) (int, error) {
	for a.left == 0 {
		if a.done {
			return 0, io.EOF
		}
		kind, size, err := readFrameHeader(a.conn.r)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		switch {
		case err != nil:
			return 0, err
		case kind == kindEnd:
			a.done = true
		case kind == kindData:
			a.left = size
		case kind == kindFail:
			return 0, a.readFailure(size)
		default:
			return 0, fmt.Errorf("the worker sent frame %q inside a body", kind)
		}
	}
	n, err := a.conn.r.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	if errors.Is(err, io.EOF) { // the worker ended inside a chunk
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close gives the connection back if the answer was read to its end, else breaks it.
func (a *Answer) Close() {
	if a.conn == nil {
		return
	}
	if a.stop() && a.done && a.left == 0 {
		a.pool.put(a.conn)
	} else {
		_ = a.conn.Close()
	}
	a.conn = nil
}
