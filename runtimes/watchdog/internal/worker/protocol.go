// SPDX-License-Identifier: Apache-2.0

// Package worker starts, supervises and calls the language worker, the process that holds the user's handler.
//
// The watchdog and the worker speak a small framed protocol over a unix socket, described in runtimes/README.md.
package worker

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/naeel/sless/internal/naming"
)

// Kinds of frames. A frame is the kind, the length of its data as a big-endian uint32, and the data.
const (
	kindHead   = 'H' // JSON: a Head to the worker, an answerHead from it
	kindData   = 'D' // a piece of a body
	kindEnd    = 'E' // the body is complete
	kindFail   = 'F' // JSON: the call failed, instead of the rest of an answer
	kindCancel = 'X' // decimal number of the call that nobody waits for any more

	frameHeaderSize = 5
	// maxHeadSize bounds the JSON frames of a worker. Bodies come in data frames, which are never held as a whole.
	maxHeadSize = 1 << 20
)

// Events: how the worker makes the handler's event from the body.
const (
	EventJSON  = "json"
	EventText  = "text"
	EventBytes = "bytes"
	EventQuery = "query" // no body: the query as an object
)

// Head describes one call to the worker.
type Head struct {
	Call      uint64            `json:"call"`
	RequestID string            `json:"requestId"`
	Method    string            `json:"method"`
	Path      string            `json:"path"`     // decoded
	RawPath   string            `json:"rawPath"`  // as it was sent, without the query
	Query     map[string]any    `json:"query"`    // a string, or a list of strings for a repeated name
	Headers   map[string]string `json:"headers"`  // lower-case names
	Deadline  int64             `json:"deadline"` // Unix time in milliseconds
	Event     string            `json:"event"`
	Charset   string            `json:"charset,omitempty"` // of EventText
}

// HandlerError is a call that the worker answered with a failure: an exception of the handler, or an event or result
// that has no form. Message is for the caller. File and Line are where it comes from in the user's code, empty if unknown.
type HandlerError struct {
	Status  int    `json:"status"`
	Message string `json:"error"`
	File    string `json:"file"`
	Line    int    `json:"line"`
}

func (e *HandlerError) Error() string { return e.Message }

// Located is the error with file and line, for those who may see the code.
func (e *HandlerError) Located() string { return locate(e.File, e.Line) + e.Message }

// answerHead is what the worker sends first. Its fields come from the user's result and are checked here, so that
// every language behaves alike.
type answerHead struct {
	Status  json.RawMessage `json:"status"`
	Headers json.RawMessage `json:"headers"`
	Type    string          `json:"type"`
	Size    *int64          `json:"size"`
}

func appendFrameHeader(b []byte, kind byte, size int) []byte {
	return binary.BigEndian.AppendUint32(append(b, kind), uint32(size)) //nolint:gosec // sizes are small constants
}

func writeFrame(w *bufio.Writer, kind byte, data []byte) error {
	if _, err := w.Write(appendFrameHeader(w.AvailableBuffer(), kind, len(data))); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func readFrameHeader(r *bufio.Reader) (kind byte, size int64, err error) {
	var header [frameHeaderSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, 0, err
	}
	return header[0], int64(binary.BigEndian.Uint32(header[1:])), nil
}

func readJSON(r *bufio.Reader, size int64, into any) error {
	if size > maxHeadSize {
		return fmt.Errorf("the worker sent %d bytes of headers, the limit is %d", size, maxHeadSize)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// defaultType is what workers call a body of bytes.
const defaultType = "application/octet-stream"

// hopByHop headers belong to one connection and never pass from a handler to its caller. Length and framing are the
// server's to decide.
var hopByHop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Content-Length": true,
}

// IsHopByHop tells whether a header in canonical form belongs to one connection only.
func IsHopByHop(name string) bool { return hopByHop[name] }

// check turns the worker's head into status and headers, or a HandlerError that names what is wrong with the result.
func (h *answerHead) check() (int, http.Header, error) {
	var status int
	if err := json.Unmarshal(h.Status, &status); err != nil || status < 200 || status > 599 {
		return 0, nil, badResult("statusCode %s, want a number from 200 to 599", shorten(h.Status))
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(h.Headers, &fields); err != nil && len(h.Headers) > 0 {
		return 0, nil, badResult("headers that are not an object: %s", shorten(h.Headers))
	}
	headers := make(http.Header, len(fields)+1)
	for name, value := range fields {
		if !httpguts.ValidHeaderFieldName(name) {
			return 0, nil, badResult("the invalid header name %q", name)
		}
		values, ok := headerValues(value)
		if !ok {
			return 0, nil, badResult("an invalid value for header %s, want text, a number or a list of these", name)
		}
		if name = http.CanonicalHeaderKey(name); !hopByHop[name] && !naming.IsInternalHeader(name) {
			headers[name] = append(headers[name], values...)
		}
	}
	empty := h.Size != nil && *h.Size == 0 && h.Type == defaultType // nothing that a type could tell about
	if _, ok := headers["Content-Type"]; !ok && h.Type != "" && !empty {
		headers["Content-Type"] = []string{h.Type}
	}
	return status, headers, nil
}

// headerValues reads a string, number or boolean, or a list of them, which gives one header line for each.
func headerValues(raw json.RawMessage) ([]string, bool) {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, false
	}
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	values := make([]string, 0, len(list))
	for _, item := range list {
		var text string
		switch v := item.(type) {
		case string:
			text = v
		case bool, float64:
			encoded, _ := json.Marshal(v)
			text = string(encoded)
		default:
			return nil, false
		}
		if !httpguts.ValidHeaderFieldValue(text) {
			return nil, false
		}
		values = append(values, text)
	}
	return values, true
}

func badResult(format string, args ...any) *HandlerError {
	text := "the handler returned " + fmt.Sprintf(format, args...)
	return &HandlerError{Status: http.StatusInternalServerError, Message: text}
}

func shorten(raw json.RawMessage) string {
	const limit = 80
	return strings.ToValidUTF8(string(raw[:min(len(raw), limit)]), "")
}
