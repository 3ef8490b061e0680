// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"
)

// outageKind is how a server fails.
type outageKind int32

const (
	// none is a server that works.
	none outageKind = iota
	// refusing is one that answers 503.
	refusing
	// hanging is one that tells of what it has, but never ends a body nor answers a request to change something.
	hanging
	// trickling is one that gives bodies byte by byte, so that it never falls silent and never gets anywhere.
	trickling
)

// trickle is the time between two bytes.
const trickle = 100 * time.Millisecond

// outage makes a server fail while it lasts.
type outage struct{ kind atomic.Int32 }

func (o *outage) set(kind outageKind) { o.kind.Store(int32(kind)) }

func (o *outage) is(kind outageKind) bool { return o.kind.Load() == int32(kind) }

func (o *outage) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet
		switch {
		case o.is(refusing):
			http.Error(w, "switched off", http.StatusServiceUnavailable)
		case o.is(hanging) && reads:
			o.spoil(w, r, next, func(body []byte, write func([]byte)) {
				write(body[:len(body)/2])
				o.wait(r, hanging)
			})
		case o.is(trickling) && reads:
			o.spoil(w, r, next, func(body []byte, write func([]byte)) {
				for i := range body {
					if !o.is(trickling) || r.Context().Err() != nil {
						return
					}
					write(body[i : i+1])
					time.Sleep(trickle)
				}
			})
		case o.is(hanging) && r.Method != http.MethodHead:
			o.wait(r, hanging)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// spoil lets next answer, lets give write the body, and breaks the connection.
func (o *outage) spoil(
	w http.ResponseWriter, r *http.Request, next http.Handler, give func(body []byte, write func([]byte)),
) {
	answer := httptest.NewRecorder()
	next.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	give(answer.Body.Bytes(), func(part []byte) {
		_, _ = w.Write(part) // the client may be gone
		_ = http.NewResponseController(w).Flush()
	})
	// What is missing of the body must not look like its end.
	panic(http.ErrAbortHandler)
}

// wait waits for the end of the outage, or of the client.
func (o *outage) wait(r *http.Request, kind outageKind) {
	for o.is(kind) && r.Context().Err() == nil {
		time.Sleep(interval)
	}
}
