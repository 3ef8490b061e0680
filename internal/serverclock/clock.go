// SPDX-License-Identifier: Apache-2.0

// Package serverclock tells the time by the clock of a server that is asked over HTTP: mostly the Kubernetes API server.
package serverclock

import (
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

const (
	// dateStep is the unit of the header Date.
	dateStep = time.Second
	// worthTelling is how far off a machine's clock has to be, so that its operator hears of it.
	worthTelling = 10 * time.Second
)

// Clock is the clock of this machine, put right by what the API server says of the time in each of its answers. What a
// controller compares with the times of objects (when they were made, deleted, scheduled) was written by the server's
// clock, and so is what the next controller will read. A machine whose clock is minutes off would wait too long, not at
// all, or make up for what was never due.
//
// It is as exact as the header Date, which is a second, and corrects nothing below that. Before the first answer it is what
// the machine's clock said at the start and the time since then. When the machine's clock is set meanwhile, nothing changes.
type Clock struct {
	local clock.PassiveClock
	log   logr.Logger
	// start is when the machine's clock was read, the one time that it is.
	start time.Time

	mu sync.Mutex
	// ahead is what the API server's clock is ahead of the machine's as it went on from start, and told what was last told
	// of it.
	ahead, told time.Duration
}

var _ clock.PassiveClock = (*Clock)(nil)

// New returns a clock that begins as local, whose Since must not follow when the clock is set (that of a time which Now gave
// does not, in package time). Give its Wrap to the configuration of the client.
func New(local clock.PassiveClock, log logr.Logger) *Clock {
	return &Clock{local: local, log: log, start: local.Now()}
}

// steady is the machine's time, as if nobody had set its clock since the start.
func (c *Clock) steady() time.Time { return c.start.Add(c.local.Since(c.start)) }

// Now returns the API server's time. It has no monotonic reading, whose difference to that of another clock would not be the
// time between the two.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steady().Add(c.ahead).Round(0)
}

// Since returns the time since t, which is one of the API server's.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Wrap reads the time from all answers that come through next. It is made for rest.Config.Wrap.
func (c *Clock) Wrap(next http.RoundTripper) http.RoundTripper {
	return &observer{clock: c, next: next}
}

type observer struct {
	clock *Clock
	next  http.RoundTripper
}

// RoundTrip asks, and reads the time from the answer.
func (o *observer) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := o.clock.steady()
	response, err := o.next.RoundTrip(r)
	if err == nil {
		o.clock.observe(response.Header.Get("Date"), sent, o.clock.steady())
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport, whose idle connections it closes when it has to.
func (o *observer) WrappedRoundTripper() http.RoundTripper { return o.next }

// observe learns from an answer to a request that was sent and answered at these times of the machine. The server wrote the
// date some time between them, and cut it to the second. What is known already stays when it agrees with that, and else
// moves no farther than it has to: so an answer that took long, or was written late, says little.
func (c *Clock) observe(date string, sent, received time.Time) {
	said, err := http.ParseTime(date)
	if err != nil {
		return // nothing that an API server writes
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	least, most := said.Sub(received), said.Add(dateStep).Sub(sent)
	c.ahead = max(least, min(most, c.ahead))
	if change := c.ahead - c.told; change >= worthTelling || change <= -worthTelling {
		c.told = c.ahead
		c.log.Info("The clock of this machine differs from the API server's, which is gone by",
			"serverAhead", c.ahead.Round(time.Second).String())
	}
}
