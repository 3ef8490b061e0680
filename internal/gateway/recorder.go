// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"net"
	"net/http"
)

// recorder is the ResponseWriter of one call. It puts the request id into the answer and remembers what was sent.
//
// The id is added when the header goes out, not before: ReverseProxy clears the header map after each informational
// (1xx) answer.
type recorder struct {
	http.ResponseWriter
	id       string
	last     bool         // tells the client to open another connection for its next call
	body     *requestBody // of a call that was passed on, nil when it has none
	status   int          // 0 until the header went out
	hijacked bool
}

// Unwrap lets http.ResponseController reach the server's own writer, for deadlines.
func (w *recorder) Unwrap() http.ResponseWriter {
	return w.ResponseWriter
}

// WriteHeader sends the header. Informational answers pass through as they are.
func (w *recorder) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	if w.status == 0 {
		w.status = status
		h := w.Header()
		h[HeaderRequestID] = []string{w.id}
		if _, ok := h["Content-Type"]; !ok {
			// A function that says nothing about the type of its body is left alone: net/http would guess.
			h["Content-Type"] = nil
		}
		// What is left of a body must never be taken for the next request, and in full duplex mode net/http does not see to
		// that when a read failed.
		if w.last || (w.body != nil && !w.body.sawEOF.Load()) {
			h["Connection"] = []string{"close"}
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// FlushError sends what is buffered.
func (w *recorder) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack hands the connection over, for an upgrade.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hijacked = true
	w.status = http.StatusSwitchingProtocols
	if rw.Reader.Buffered() > 0 {
		conn = &earlyConn{Conn: conn, buffered: rw.Reader}
	}
	return conn, rw, nil
}

// earlyConn is the connection of a client that did not wait for the upgrade: some of what it sent has been read
// already. ReverseProxy reads from the connection only and would lose it.
type earlyConn struct {
	net.Conn
	buffered *bufio.Reader // reads from Conn when it is empty
}

// Read reads what came early first.
func (c *earlyConn) Read(p []byte) (int, error) {
	return c.buffered.Read(p)
}

// CloseWrite passes the end of one direction on.
func (c *earlyConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
