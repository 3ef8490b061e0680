// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	pollEvery   = 20 * time.Millisecond
	callTimeout = 10 * time.Second
	maxAnswer   = 64 << 10
	// watchAfter is how long calls go on after the new code has answered, to see whether the old code still does.
	watchAfter = time.Second
)

// polled is what the calls during one change have seen.
type polled struct {
	// firstNew is when the new code answered first, lastOld when the old code did last. Zero: never.
	firstNew, lastOld time.Time
	calls             int
	// wrong are the answers that neither the old nor the new code gives, and calls that failed.
	wrong      int
	firstWrong error
}

var errNeverNew = errors.New("the new code did not answer in time")

// poll calls url every 20 ms, one call at a time, until a second after the new code has answered. It gives up when ctx
// ends.
func poll(ctx context.Context, url string, oldNumber, newNumber int, now func() time.Time) (polled, error) {
	p := polled{}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		number, err := call(ctx, url)
		at := now()
		switch {
		case ctx.Err() != nil:
			if p.firstNew.IsZero() {
				return p, errNeverNew
			}
			return p, nil
		case err == nil && number == newNumber:
			if p.firstNew.IsZero() {
				p.firstNew = at
			}
		case err == nil && number == oldNumber:
			p.lastOld = at
		default:
			if err == nil {
				err = fmt.Errorf("the answer is %d, but should be %d or %d", number, oldNumber, newNumber)
			}
			if p.wrong++; p.firstWrong == nil {
				p.firstWrong = err
			}
		}
		p.calls++
		if !p.firstNew.IsZero() && at.Sub(p.firstNew) > watchAfter {
			return p, nil
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// call calls a program once.
func call(ctx context.Context, url string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the answer is %s: %.200q", resp.Status, body)
	}
	return numberOf(body)
}
