// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naeel/sless/internal/naming"
)

const (
	// repeatWindow is how long a call is made again that has not reached the function: the interceptor learns of a new function
	// a moment later than the gateway, and replicas that are full get company within seconds.
	repeatWindow = 5 * time.Second
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
// until a replica is ready. While the interceptor cannot be reached, or does not hear of the function in time, calls go straight
// to the function's Service: replicas that run still answer.
type wakingTransport struct {
	next http.RoundTripper
	// interceptor is the host:port of its proxy.
	interceptor string
	// window is how long a call is made again that has not reached the function.
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
	again := repeater{call: c, pause: backoff{next: firstBackoff}, window: t.window}
	defer again.stop()
	for {
		res, err := t.next.RoundTrip(&held)
		switch {
		case errors.As(err, new(*dialError)):
			return t.next.RoundTrip(req)
		case err != nil:
			return nil, err
		case isBusy(res):
			// A crowd that waited for the first replica may be more than it takes at once, and further replicas take a moment.
			if !again.wait(req.Context()) {
				return res, nil
			}
			discard(res)
		case fromFunction(res):
			return res, nil
		default:
			discard(res)
			unknown := res.StatusCode == http.StatusNotFound
			if unknown && again.wait(req.Context()) {
				break
			}
			own := &interceptorError{status: res.StatusCode, resolved: res.Header.Get(headerKedaColdStart) != ""}
			if !unknown || !again.possible() {
				return nil, own
			}
			again.rewind()
			res, err := t.next.RoundTrip(req)
			if errors.As(err, new(*dialError)) {
				return nil, own
			}
			return res, err
		}
		again.rewind()
	}
}

// repeater makes a call again that has not reached the user's code, with growing pauses, for a while.
type repeater struct {
	call   *call
	pause  backoff
	window time.Duration

	timer *time.Timer
}

// wait pauses. It reports false when the call cannot be made again, or not any more.
func (r *repeater) wait(ctx context.Context) bool {
	if !r.possible() {
		return false
	}
	if r.timer == nil {
		r.timer = time.NewTimer(r.window)
	}
	return r.pause.wait(ctx, r.timer.C)
}

// possible tells whether all of the call is still there.
func (r *repeater) possible() bool {
	return r.call.body == nil || r.call.body.replayable()
}

func (r *repeater) rewind() {
	if r.call.body != nil {
		r.call.body.rewind()
	}
}

func (r *repeater) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

// isBusy tells that a replica took no more calls at once.
func isBusy(res *http.Response) bool {
	return res.StatusCode == http.StatusTooManyRequests && res.Header.Get(naming.BusyHeader) != ""
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

// takeInternal removes what the parts of sless and the autoscaler tell each other from an answer, and returns what the
// interceptor says about a cold start. What a function may have said there is gone with it.
func takeInternal(header http.Header) (coldStart string) {
	coldStart = header.Get(headerKedaColdStart)
	for name := range header {
		if naming.IsInternalHeader(name) {
			delete(header, name)
		}
	}
	return coldStart
}

// markColdStart tells the caller whether the call has woken the function, and of a call that has how long the caller waited
// until the answer began, and of what that consists. cold is what the interceptor says, "" for nothing. The watchdog says how
// long the handler took, and how long it took to load it; the rest went by until the replica ran and was known to run.
func markColdStart(header http.Header, cold string, waited time.Duration) {
	if cold == "" {
		return
	}
	header.Set(headerColdStart, cold)
	if cold != "true" {
		return
	}
	whole := float64(waited) / float64(time.Millisecond)
	if rest := whole - timing(header, "handler") - timing(header, "load"); rest > 0 {
		header.Add(headerServerTiming, fmt.Sprintf("start;dur=%.1f", rest))
	}
	header.Add(headerServerTiming, fmt.Sprintf("wait;dur=%.1f", whole))
}

// timing returns how many milliseconds the watchdog says that a part of the call took. It says so after what the handler has
// said, which may be about something else under the same name.
func timing(header http.Header, part string) float64 {
	for _, value := range slices.Backward(header.Values(headerServerTiming)) {
		if text, ok := strings.CutPrefix(value, part+";dur="); ok {
			if took, err := strconv.ParseFloat(text, 64); err == nil && took >= 0 {
				return took
			}
		}
	}
	return 0
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
