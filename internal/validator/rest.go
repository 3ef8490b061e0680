// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"sync"
	"time"
)

const (
	// restAfter is how many questions in a row have to fail before the model is left alone.
	restAfter = 5
	// restFor is for how long.
	restFor = 15 * time.Second
)

// rest leaves a model alone that does not answer, so that its outage does not hold up every admission for the whole
// timeout. An answer that is not usable does not count: it comes from the code as often as from the model.
type rest struct {
	mu     sync.Mutex
	failed int
	until  time.Time
}

// resting says whether the model is left alone now.
func (r *rest) resting(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.until)
}

// ended takes in how a question ended.
func (r *rest) ended(cause Cause, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch cause {
	case CauseTimeout, CauseUnreachable, CauseStatus:
		// The count stays: after the rest, one more failure begins the next.
		if r.failed++; r.failed >= restAfter {
			r.until = now.Add(restFor)
		}
	default:
		r.failed = 0
	}
}
