// SPDX-License-Identifier: Apache-2.0

package serverclock

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	clocktesting "k8s.io/utils/clock/testing"
)

// local is what the machine's clock says, between two seconds.
var local = time.Date(2026, time.March, 1, 12, 0, 0, 400_000_000, time.UTC)

func date(at time.Time) string { return at.UTC().Format(http.TimeFormat) }

func TestObserve(t *testing.T) {
	t.Parallel()
	const fast, slow = 10 * time.Millisecond, 20 * time.Second
	tests := map[string]struct {
		known time.Duration
		date  string
		took  time.Duration
		want  time.Duration
	}{
		"the same second":                      {date: date(local), took: fast},
		"as exact as it was, and agrees":       {known: 300 * time.Millisecond, date: date(local), took: fast, want: 300 * time.Millisecond},
		"five minutes ahead":                   {date: date(local.Add(5 * time.Minute)), took: fast, want: 5*time.Minute - 410*time.Millisecond},
		"five minutes behind":                  {date: date(local.Add(-5 * time.Minute)), took: fast, want: -5*time.Minute + 600*time.Millisecond},
		"known already":                        {known: 5 * time.Minute, date: date(local.Add(5 * time.Minute)), took: fast, want: 5 * time.Minute},
		"put right meanwhile":                  {known: 5 * time.Minute, date: date(local), took: fast, want: 600 * time.Millisecond},
		"an answer that took long agrees":      {known: 9 * time.Second, date: date(local.Add(10 * time.Second)), took: slow, want: 9 * time.Second},
		"an answer that took long says little": {date: date(local.Add(-time.Minute)), took: slow, want: -time.Minute + 600*time.Millisecond},
		"no date":                              {known: time.Minute, took: fast, want: time.Minute},
		"no date that one can read":            {known: time.Minute, date: "yesterday", took: fast, want: time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(clocktesting.NewFakePassiveClock(local), logr.Discard())
			c.ahead = tc.known
			c.observe(tc.date, local, local.Add(tc.took))
			if got := c.Now().Sub(local); got != tc.want {
				t.Errorf("the clock is put forward by %s, want %s", got, tc.want)
			}
		})
	}
}

// setClock is a machine's clock that is set while time goes on as ever.
type setClock struct {
	*clocktesting.FakePassiveClock
	set time.Duration
}

func (c *setClock) Now() time.Time { return c.FakePassiveClock.Now().Add(c.set) }

// What was known of the server's time is still known when somebody sets the machine's clock: nothing is done too early.
func TestClockOfTheMachineIsSet(t *testing.T) {
	t.Parallel()
	machine := &setClock{FakePassiveClock: clocktesting.NewFakePassiveClock(local)}
	c := New(machine, logr.Discard())
	for _, set := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		machine.set = set
		machine.SetTime(machine.FakePassiveClock.Now().Add(time.Second))
		if got, want := c.Now(), machine.FakePassiveClock.Now(); !got.Equal(want) {
			t.Errorf("with the machine's clock set by %s it is %s, want %s", set, got, want)
		}
	}
}

// A machine whose clock is off tells the server's time once it has asked for anything, follows when its clock is set, and
// tells its operator once for each time.
func TestClockFollowsTheServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", date(local))
	}))
	t.Cleanup(server.Close)
	told := 0
	machine := clocktesting.NewFakePassiveClock(local.Add(-5 * time.Minute))
	c := New(machine, funcr.New(func(_, _ string) { told++ }, funcr.Options{}))
	client := &http.Client{Transport: c.Wrap(http.DefaultTransport)}
	ask := func() {
		t.Helper()
		response, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	off := func() time.Duration { return c.Since(local).Abs() }
	if got := off(); got != 5*time.Minute {
		t.Errorf("before the first answer it is off by %s, want 5m", got)
	}
	for _, skew := range []time.Duration{-5 * time.Minute, -5 * time.Minute, 5 * time.Minute, 0} {
		machine.SetTime(local.Add(skew))
		ask()
		if got := off(); got > dateStep {
			t.Errorf("with the machine's clock at %s it is off by %s", skew, got)
		}
	}
	if told != 3 {
		t.Errorf("it was told %d times, want 3", told)
	}
	server.Close()
	if _, err := client.Get(server.URL); err == nil || off() > dateStep {
		t.Errorf("without an answer (%v) it is off by %s", err, off())
	}
}
