// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Reasons of the gateway's own answers. A function that is not available gives the reason of its Ready condition
// instead.
const (
	reasonNotFound         = "NotFound"
	reasonMethodNotAllowed = "MethodNotAllowed"
	reasonBadRequest       = "BadRequest"
	reasonClientStalled    = "ClientStalled"
	reasonTooManyRequests  = "TooManyRequests"
	reasonStarting         = "GatewayStarting"
	reasonStopping         = "GatewayStopping"
	reasonInternal         = "InternalError"
	reasonConnectFailed    = "ConnectFailed"
	reasonUpstreamFailed   = "UpstreamFailed"
	reasonTimeout          = "FunctionTimeout"
	reasonNotRouted        = "NotRoutedYet"
	reasonStartTimeout     = "StartTimeout"
)

// statusClientGone is what metrics show for a call whose client went away before the answer. It is never sent.
const statusClientGone = 499

// Refusal is an answer that the gateway gives itself, instead of the function.
type Refusal struct {
	// Status is the HTTP status code.
	Status int
	// Reason is one word for programs.
	Reason string
	// Message is a sentence for people. It may be that of the Function's condition, and tells no more than that.
	Message string
	// RetryAfter is when a further try makes sense. 0 means that waiting alone does not help.
	RetryAfter time.Duration
	// Allow lists the methods that would be accepted, for status 405.
	Allow string
}

// Error makes a Refusal an error, so that a Resolver can return one.
func (r *Refusal) Error() string {
	return r.Reason + ": " + r.Message
}

// errorBody is the JSON of every answer that the gateway gives itself.
type errorBody struct {
	Error     string `json:"error"`
	Reason    string `json:"reason"`
	RequestID string `json:"requestId"`
}

// writeRefusal answers with a Refusal. The request id header is the business of w.
func writeRefusal(w http.ResponseWriter, id string, r *Refusal) {
	body, err := marshal(errorBody{Error: r.Message, Reason: r.Reason, RequestID: id})
	if err != nil {
		body = []byte("{}") // strings always marshal
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((r.RetryAfter+time.Second-1)/time.Second)))
	}
	if r.Allow != "" {
		h.Set("Allow", r.Allow)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(append(body, '\n')) // a client that is gone needs no answer
}

func notFound(message string) *Refusal {
	return &Refusal{Status: http.StatusNotFound, Reason: reasonNotFound, Message: message}
}

func functionNotFound(fn types.NamespacedName) *Refusal {
	return notFound(fmt.Sprintf("function %s does not exist", fn))
}

func internalError() *Refusal {
	return &Refusal{
		Status: http.StatusInternalServerError, Reason: reasonInternal,
		Message: "the gateway failed to look up the function",
	}
}

func tooManyRequests(fn types.NamespacedName, limit int) *Refusal {
	return &Refusal{
		Status: http.StatusTooManyRequests, Reason: reasonTooManyRequests, RetryAfter: time.Second,
		Message: fmt.Sprintf("function %s has %d calls in flight or waiting, which is the limit", fn, limit),
	}
}

func starting() *Refusal {
	return &Refusal{
		Status: http.StatusServiceUnavailable, Reason: reasonStarting, RetryAfter: time.Second,
		Message: "the gateway does not know the functions yet",
	}
}

// marshal is json.Marshal for text that people read in a terminal: < and > stay what they are.
func marshal(value any) ([]byte, error) {
	out := &bytes.Buffer{}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
