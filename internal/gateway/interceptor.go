// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// routeWindow is how long the interceptor may not know a function that the cluster has: it learns of a new one a moment
	// later than the gateway.
	routeWindow = 2 * time.Second
	// maxInterceptorBody is what is read of an answer of the interceptor's own, so that its connection can be used again.
	maxInterceptorBody = 4 << 10

	headerColdStart     = "X-Sless-Cold-Start"
	headerKedaColdStart = "X-Keda-Http-Cold-Start"
	headerServerTiming  = "Server-Timing"
)

// interceptorError is an answer of the interceptor's own: the function was not called.
type interceptorError struct {
	status int
	// resolved tells that a replica was ready.
	resolved bool
}

func (e *interceptorError) Error() string {
	return fmt.Sprintf("the autoscaler's interceptor answered with status %d", e.status)
}

// wakingTransport sends calls of functions that scale to the autoscaler's interceptor, which counts them, and holds them
// until a replica is ready. While the interceptor cannot be reached, calls go straight to the function's Service: replicas
// that run still answer.
type wakingTransport struct {
	next http.RoundTripper
	// interceptor is the host:port of its proxy.
	interceptor string
	// window is how long an interceptor that does not know the function is asked again.
	window time.Duration
}

// RoundTrip sends one attempt of the call in req's context. Its errors are those of next, or an *interceptorError.
func (t *wakingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	c := callFrom(req.Context())
	if !c.route.Scales {
		return t.next.RoundTrip(req)
	}
	held := *req
	url := *req.URL
	url.Host = t.interceptor
	held.URL, held.Host = &url, c.route.VirtualHost
	pause := backoff{next: firstBackoff}
	var window <-chan time.Time
	for {
		res, err := t.next.RoundTrip(&held)
		if errors.As(err, new(*dialError)) {
			return t.next.RoundTrip(req)
		}
		if err != nil || fromFunction(res) {
			return res, err
		}
		discard(res)
		refused := &interceptorError{status: res.StatusCode, resolved: res.Header.Get(headerKedaColdStart) != ""}
		if res.StatusCode != http.StatusNotFound || c.body != nil && !c.body.replayable() {
			return nil, refused
		}
		if window == nil {
			timer := time.NewTimer(t.window)
			defer timer.Stop()
			window = timer.C
		}
		if !pause.wait(req.Context(), window) {
			return nil, refused
		}
		if c.body != nil {
			c.body.rewind()
		}
	}
}

// fromFunction tells an answer of a function, which carries the id of its request whatever it says, from one of the
// interceptor.
func fromFunction(res *http.Response) bool {
	return res.StatusCode == http.StatusSwitchingProtocols || res.Header.Get(HeaderRequestID) != ""
}

func discard(res *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxInterceptorBody))
	_ = res.Body.Close()
}

// markColdStart tells the caller whether the call has woken the function, and of a call that has how long the caller waited
// until the answer began. The watchdog adds how much of that was spent in the handler.
func markColdStart(header http.Header, waited time.Duration) {
	cold := header.Get(headerKedaColdStart)
	header.Del(headerKedaColdStart)
	if cold == "" {
		return
	}
	header.Set(headerColdStart, cold)
	if cold == "true" {
		header.Add(headerServerTiming, fmt.Sprintf("wait;dur=%.1f", float64(waited)/float64(time.Millisecond)))
	}
}

// explainInterceptor says why the interceptor did not pass a call on.
func (c *call) explainInterceptor(err *interceptorError, startup time.Duration) *Refusal {
	fn := c.route.Function
	switch {
	case err.status == http.StatusNotFound:
		return &Refusal{
			Status: http.StatusServiceUnavailable, Reason: reasonNotRouted, RetryAfter: time.Second,
			Message: fmt.Sprintf("the autoscaler does not know function %s yet", fn),
		}
	case err.status == http.StatusGatewayTimeout && err.resolved:
		return c.timedOut()
	case err.status == http.StatusGatewayTimeout:
		return &Refusal{
			Status: http.StatusGatewayTimeout, Reason: reasonStartTimeout, RetryAfter: buildRetryAfter,
			Message: fmt.Sprintf("no replica of function %s was ready within %s", fn, startup),
		}
	default:
		return &Refusal{
			Status: http.StatusBadGateway, Reason: reasonUpstreamFailed, RetryAfter: time.Second,
			Message: fmt.Sprintf("the autoscaler could not reach function %s", fn),
		}
	}
}
