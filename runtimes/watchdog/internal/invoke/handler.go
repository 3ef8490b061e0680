// SPDX-License-Identifier: Apache-2.0

// Package invoke is the HTTP side of a function container: it turns requests into calls of the language worker and
// enforces the limits of the function.
package invoke

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/runtimes/watchdog/internal/worker"
)

// RequestIDHeader carries the id of a call, from the gateway to the handler and back to the caller.
const RequestIDHeader = "X-Request-Id"

// statusClientGone is what metrics show for a call whose caller left; nobody receives it.
const statusClientGone = 499

// Workers hands out the worker that serves calls.
type Workers interface {
	Acquire(ctx context.Context) (*worker.Lease, error)
	Release(*worker.Lease)
	// Retire replaces a worker whose handler does not end.
	Retire(*worker.Lease)
}

// Handler answers every request on the function's port.
type Handler struct {
	Workers Workers
	// Timeout is the longest time from the arrival of a request to the end of its answer.
	Timeout time.Duration
	// MaxBodyBytes bounds the body of a request.
	MaxBodyBytes int64
	// Concurrency bounds the calls in flight. More are refused with 429 and not queued: the gateway queues.
	Concurrency int64
	Metrics     *Metrics
	Log         *slog.Logger
	// Now is the clock.
	Now func() time.Time

	load     atomic.Pointer[load]
	inFlight atomic.Int64
	numbers  atomic.Uint64
}

// load is the last time that the handler was loaded.
type load struct {
	at   time.Time
	took time.Duration
}

// Loaded is told how long the handler, which is loaded now, took for that.
func (h *Handler) Loaded(took time.Duration) {
	h.load.Store(&load{at: h.Now(), took: took})
}

// outcome is how a call ended for its caller.
type outcome struct {
	code int
	// abort breaks the connection, because a part of an answer was sent that can never be completed.
	abort bool
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := h.Now()
	id := requestID(r.Header)
	w.Header().Set(RequestIDHeader, id)
	result := h.serve(w, r, id, started)
	h.Metrics.observe(result.code, h.Now().Sub(started))
	if result.abort {
		panic(http.ErrAbortHandler)
	}
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, id string, started time.Time) outcome {
	if r.ContentLength > h.MaxBodyBytes {
		w.Header().Set("Connection", "close")
		return refuse(w, id, http.StatusRequestEntityTooLarge, h.tooLarge())
	}
	defer h.inFlight.Add(-1)
	if h.inFlight.Add(1) > h.Concurrency {
		// The server would read what is left of a small body before it answers, however slowly that comes.
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(h.Now())
		w.Header().Set("Retry-After", "1")
		w.Header().Set(naming.BusyHeader, "true")
		return refuse(w, id, http.StatusTooManyRequests,
			fmt.Sprintf("the function is serving %d calls at once, which is its limit", h.Concurrency))
	}
	h.Metrics.inFlight.Inc()
	defer h.Metrics.inFlight.Dec()
	c := &call{Handler: h, w: w, r: r, id: id, number: h.numbers.Add(1), deadline: started.Add(h.Timeout)}
	return c.run()
}

func (h *Handler) tooLarge() string {
	return fmt.Sprintf("the body is larger than the limit of %d bytes", h.MaxBodyBytes)
}

// refuse answers with an error that is not the handler's own answer.
func refuse(w http.ResponseWriter, id string, code int, text string) outcome {
	body, _ := json.Marshal(struct { // text and id are plain strings: it cannot fail
		Error     string `json:"error"`
		RequestID string `json:"requestId"`
	}{text, id})
	body = append(body, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body)
	return outcome{code: code}
}

// requestID takes the id of the gateway, or makes one. An id that could garble a log line is not taken.
func requestID(headers http.Header) string {
	const maxLength = 128
	id := headers.Get(RequestIDHeader)
	valid := id != "" && len(id) <= maxLength
	for i := 0; i < len(id) && valid; i++ {
		valid = id[i] > ' ' && id[i] < 0x7f
	}
	if valid {
		return id
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}
