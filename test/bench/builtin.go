// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// builtinGenerator calls over a number of connections, each as soon as its last call has ended. It takes more of the
// processor than wrk does, so that it finds lower rates on the same machine.
type builtinGenerator struct {
	now func() time.Time
}

func (builtinGenerator) String() string { return "the load generator built in (not wrk)" }

// maxLatencies bounds the memory of one connection.
const maxLatencies = 1_000_000

type connectionResult struct {
	latencies []time.Duration
	failed    int
}

func (g builtinGenerator) run(ctx context.Context, url string, connections int, duration time.Duration) (load, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	httpClient := &http.Client{Transport: transport, Timeout: callTimeout}

	began := g.now()
	results := make([]connectionResult, connections)
	workers := sync.WaitGroup{}
	for i := range results {
		workers.Go(func() { results[i] = g.callUntil(ctx, httpClient, url, began.Add(duration)) })
	}
	workers.Wait()
	took := g.now().Sub(began)
	if ctx.Err() != nil {
		return load{}, context.Cause(ctx)
	}
	all := connectionResult{}
	for _, r := range results {
		all.latencies = append(all.latencies, r.latencies...)
		all.failed += r.failed
	}
	if len(all.latencies) == 0 {
		return load{}, errors.New("no call ended")
	}
	return load{
		perSecond: float64(len(all.latencies)) / took.Seconds(), p50: quantile(all.latencies, 0.5),
		p99: quantile(all.latencies, 0.99), failed: all.failed,
	}, nil
}

func (g builtinGenerator) callUntil(ctx context.Context, c *http.Client, url string, end time.Time) connectionResult {
	r := connectionResult{}
	for ctx.Err() == nil && len(r.latencies) < maxLatencies {
		began := g.now()
		if !began.Before(end) {
			break
		}
		if !succeeds(ctx, c, url) {
			r.failed++
		}
		r.latencies = append(r.latencies, g.now().Sub(began))
	}
	return r
}

func succeeds(ctx context.Context, c *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := c.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return err == nil && resp.StatusCode == http.StatusOK
}
