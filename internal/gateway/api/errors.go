// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// When a further try makes sense.
const (
	keysRetryAfter     = 10 * time.Second
	busyRetryAfter     = 5 * time.Second
	platformRetryAfter = 5 * time.Second
)

// Error is an answer that is not a success. Any other error that a handler returns becomes 500, and its text is only
// logged.
type Error struct {
	// Status is the HTTP status code.
	Status int
	// Message is a sentence for the client, who should know from it what to do.
	Message string
	// RetryAfter is when the same request may succeed. 0 means that waiting alone does not help.
	RetryAfter time.Duration

	challenge string // of WWW-Authenticate
	cause     error  // for the log
}

// Error gives the message.
func (e *Error) Error() string {
	return e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error {
	return e.cause
}

var errNoRoute = &Error{Status: http.StatusNotFound, Message: "there is no such path; see /v1/openapi.json"}

func fail(status int, format string, args ...any) *Error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}

// platformDown is a failure of something that sless needs and that comes back by itself.
func platformDown(message string, cause error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Message: message, RetryAfter: platformRetryAfter, cause: cause,
	}
}

type errorBody struct {
	Error string `json:"error"`
}

type requestIDKey struct{}

func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	var answer *Error
	if !errors.As(err, &answer) {
		answer = &Error{Status: http.StatusInternalServerError, Message: "the gateway failed; its log says why", cause: err}
	}
	if answer.cause != nil && r.Context().Err() == nil {
		id, _ := r.Context().Value(requestIDKey{}).(string)
		s.cfg.Log.Error(answer.cause, "Serving an API request failed", "method", r.Method, "route", r.Pattern,
			"status", answer.Status, "requestID", id)
	}
	h := w.Header()
	if answer.challenge != "" {
		h.Set("WWW-Authenticate", answer.challenge)
	}
	if answer.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((answer.RetryAfter+time.Second-1)/time.Second)))
	}
	writeJSON(w, answer.Status, errorBody{Error: answer.Message})
}

// writeJSON answers with a body that always marshals.
func writeJSON(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte("{}")
	}
	writeRaw(w, status, append(data, '\n'))
}

func writeRaw(w http.ResponseWriter, status int, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that is gone needs no answer
}
