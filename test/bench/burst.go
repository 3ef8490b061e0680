// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// burstCalls is how many calls come at once.
const burstCalls = 200

// burst collects the results of calls that come at once, over some rounds.
type burst struct {
	calls sample
	// cold counts the calls that the gateway says have woken the function.
	cold int
	// firstFailure is why the first call of them failed.
	firstFailure error
	// slowest are the last answers of the rounds.
	slowest []time.Duration
}

// burstCall is the result of one call.
type burstCall struct {
	took time.Duration
	said woken
	err  error
}

// measureBurst sends many calls at once to functions that have no pod. Without KEDA nothing is measured.
func measureBurst(ctx context.Context, b *bench, runs int) ([]*table, error) {
	if ok, err := b.hasAutoscaler("burst"); !ok {
		return nil, err
	}
	summary := &table{
		block: "burst", title: fmt.Sprintf("%d calls at once at a function at zero, %d times", burstCalls, runs),
		columns: []string{
			"function", "calls", "median", "p95", "max", "failures", "woke it, the gateway says", "last answer, median",
		},
	}
	tables := []*table{summary}
	number := int(b.began.Unix() % 1_000_000)
	for _, p := range b.programs() {
		fn := scaling(p.function("burst-"+strings.ReplaceAll(p.runtime, ".", "-"), number), sleeperIdle)
		s, err := b.deploySleeper(ctx, fn, number)
		if err != nil {
			return tables, err
		}
		r, err := s.burstOften(ctx, p.runtime, runs)
		summary.rows = append(summary.rows, r.row())
		if err != nil {
			return tables, err
		}
	}
	return tables, nil
}

// burstOften makes the rounds.
func (s *sleeper) burstOften(ctx context.Context, name string, rounds int) (*burst, error) {
	r := &burst{calls: sample{name: name}}
	for i := range rounds {
		if err := s.toZero(ctx); err != nil {
			return r, err
		}
		failed := r.calls.failures
		r.add(s.burstOnce(ctx, burstCalls))
		if failed = r.calls.failures - failed; failed > 0 {
			s.wrongAnswer("%d of %d calls at once of %s failed; the first: %v", failed, burstCalls, s.name, r.firstFailure)
		}
		s.say("%s, round %d of %d: last answer after %s, %d failures", s.name, i+1, rounds,
			showDuration(r.slowest[len(r.slowest)-1]), failed)
	}
	return r, nil
}

// burstOnce sends n calls at once, each on a connection of its own.
func (s *sleeper) burstOnce(ctx context.Context, n int) []burstCall {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	calls, callers := make([]burstCall, n), sync.WaitGroup{}
	httpClient, start := &http.Client{Transport: transport}, make(chan struct{})
	for i := range calls {
		callers.Go(func() {
			<-start
			began := s.now()
			said, err := s.call(ctx, httpClient)
			calls[i] = burstCall{took: s.now().Sub(began), said: said, err: err}
		})
	}
	close(start)
	callers.Wait()
	return calls
}

// add adds one round.
func (r *burst) add(calls []burstCall) {
	slowest := time.Duration(0)
	for _, c := range calls {
		slowest = max(slowest, c.took)
		if c.err != nil {
			if r.calls.failures++; r.firstFailure == nil {
				r.firstFailure = c.err
			}
			continue
		}
		r.calls.add(c.took)
		if c.said.cold {
			r.cold++
		}
	}
	r.slowest = append(r.slowest, slowest)
}

func (r *burst) row() []string {
	return append(r.calls.row(), itoa(r.cold), milliseconds(r.slowest, 0.5))
}
