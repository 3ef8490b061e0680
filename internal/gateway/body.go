// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// lingerTime is how long the rest of a body that nobody wants is read after the answer, so that the client gets to see
// the answer before its connection closes.
const lingerTime = 500 * time.Millisecond

// maxReplay bounds what is remembered of a body, in bytes. The transport reads no more than one buffer before it
// writes for the first time, so this is enough for every attempt of which nothing was sent.
const maxReplay = 32 << 10

// longPast is a deadline that ends a read at once.
var longPast = time.Unix(1, 0)

var errBodyFinished = errors.New("the call is over, its body is read no more")

// requestBody is the client's body on its way to the function. The transport reads it in a goroutine that may outlive
// the call and that blocks as long as the client sends nothing, so the body can be taken away from it.
type requestBody struct {
	inner    io.Reader
	conn     *http.ResponseController
	progress func() // called after each read that brought something

	mu       sync.Mutex // held while a read is under way
	head     []byte     // what was read so far, until it is too much
	replay   []byte     // what is given again before anything is read
	lost     bool       // too much was read for another attempt
	reading  atomic.Bool
	finished atomic.Bool
	sawEOF   atomic.Bool
	broken   atomic.Bool
}

// Read reads from the client, unless the call is over.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// reading is set before finished is looked at, and interrupt does it the other way round: one sees the other.
	b.reading.Store(true)
	defer b.reading.Store(false)
	if b.finished.Load() {
		return 0, errBodyFinished
	}
	if len(b.replay) > 0 {
		n := copy(p, b.replay)
		b.replay = b.replay[n:]
		return n, nil
	}
	n, err := b.inner.Read(p)
	b.keep(p[:n])
	switch {
	case err == io.EOF:
		b.sawEOF.Store(true)
	case err != nil:
		b.broken.Store(true)
	}
	if n > 0 {
		b.progress()
	}
	return n, err
}

// keep remembers what was read, for another attempt.
func (b *requestBody) keep(p []byte) {
	switch {
	case b.lost:
	case len(b.head)+len(p) > maxReplay:
		b.lost, b.head = true, nil
	default:
		b.head = append(b.head, p...)
	}
}

// replayable reports whether the next attempt can be given the whole body.
func (b *requestBody) replayable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.lost
}

// rewind starts an attempt: what was read for the one before is given again.
func (b *requestBody) rewind() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replay = b.head
}

// Close does nothing. The transport closes bodies when a connection fails, but the body belongs to the server, and the
// next attempt needs it.
func (b *requestBody) Close() error {
	return nil
}

// waitsForClient reports whether a read is under way.
func (b *requestBody) waitsForClient() bool {
	return b.reading.Load()
}

// interrupt forbids further reads and ends one that is under way. Without it the transport would wait for the client
// before it reports anything, even that the call was cancelled.
func (b *requestBody) interrupt() {
	b.finished.Store(true)
	// A body that was read to its end is left alone: the connection may serve the next request already.
	if b.reading.Load() && !b.sawEOF.Load() {
		_ = b.conn.SetReadDeadline(longPast) // unsupported only by writers in tests
	}
}

// finish ends the use of the body after the answer. No read is under way when it returns. The server still reads a
// little of what the client sends; until is when that must end, so that a client that stalls does not keep its
// connection.
func (b *requestBody) finish(until time.Time) {
	b.interrupt()
	// The server clears the deadline when it has to end a read itself, so the read has to be over before.
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.sawEOF.Load() {
		_ = b.conn.SetReadDeadline(until)
	}
}
