// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
)

// HeaderRequestID names a call in the gateway's answer, in the function and in the logs.
const HeaderRequestID = "X-Request-Id"

// maxRequestIDLength bounds a request id that a client chose, in bytes.
const maxRequestIDLength = 128

// RequestID returns the id that the client gave, when it gave exactly one valid one, else a new one.
func RequestID(h http.Header) string {
	if given := h[HeaderRequestID]; len(given) == 1 && validRequestID(given[0]) {
		return given[0]
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// validRequestID reports whether id is safe in headers, logs and JSON without any quoting.
func validRequestID(id string) bool {
	if len(id) == 0 || len(id) > maxRequestIDLength {
		return false
	}
	for _, c := range []byte(id) {
		letter := (c|0x20) >= 'a' && (c|0x20) <= 'z'
		digit := c >= '0' && c <= '9'
		if !letter && !digit && strings.IndexByte("-_.:+/=@", c) < 0 {
			return false
		}
	}
	return true
}
