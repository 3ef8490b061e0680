// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"net/http"
	"time"
)

const (
	// codeTooSkewed is what a store says when the time of a signature is too far from its own.
	codeTooSkewed = "RequestTimeTooSkewed"
	// codeHeader and textHeader are where the client looks for the code of an answer that has no body, and for the text.
	codeHeader = "X-Minio-Error-Code"
	textHeader = "X-Minio-Error-Desc"
	// tooSkewed is about what stores allow.
	tooSkewed = 14 * time.Minute
)

// callersTime gives a time of the store's clock by the clock of the caller, which compares it with its own times: the two
// need not agree. What the store's clock says is known from its last answer.
func (s *S3) callersTime(t time.Time) time.Time {
	return t.Add(s.clock.Now().Sub(s.own.Now()))
}

// skewTeller makes the store's answers to HEAD say that the clocks are apart. They have no body that could tell it, and would
// look like those to wrong credentials.
type skewTeller struct{ next http.RoundTripper }

// RoundTrip asks, and looks at the time in a refusal.
func (t *skewTeller) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if err != nil || r.Method != http.MethodHead || res.StatusCode != http.StatusForbidden || res.Header.Get(codeHeader) != "" {
		return res, err
	}
	// The machine's own clock, which signed the request.
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil && time.Since(date).Abs() > tooSkewed {
		res.Header.Set(codeHeader, codeTooSkewed)
		res.Header.Set(textHeader, "the time of the request is too far from that of the object store")
	}
	return res, nil
}
