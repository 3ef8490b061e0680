// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"
	"time"
)

// claims puts in order what the controllers of this process rely on in the object store and the registry, and what its
// cleaning removes there. A controller that is about to find out whether something exists, or to take it for granted
// because it asked a short while ago, claims it first. What was claimed within the time of grace is not removed; and who
// claims what is being removed waits for the end of that, and then finds it gone. So there is no moment between "it
// exists" and the Function's status naming it in which it can be lost.
//
// It holds for one process. That is enough for all that controllers do, since one manager leads. The gateway stores code
// too: objectstore.Keep says why that is safe.
type claims struct {
	mu       sync.Mutex
	claimed  map[string]time.Time
	removing map[string]chan struct{}
}

func newClaims() *claims {
	return &claims{claimed: map[string]time.Time{}, removing: map[string]chan struct{}{}}
}

// claim keeps keys from being removed. It fails when the context ends while it waits. On nil claims it does nothing.
func (c *claims) claim(ctx context.Context, now time.Time, keys ...string) error {
	if c == nil {
		return nil
	}
	for _, key := range keys {
		for {
			removed := c.note(key, now)
			if removed == nil {
				break
			}
			select {
			case <-removed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// note notes a claim, or returns what is closed when the removal of the key has ended.
func (c *claims) note(key string, now time.Time) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if removing := c.removing[key]; removing != nil {
		return removing
	}
	c.claimed[key] = now
	return nil
}

// remove begins to remove keys, unless one of them was claimed at or after since. The caller calls done at the end.
func (c *claims) remove(since time.Time, keys ...string) (done func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if at, claimed := c.claimed[key]; claimed && !at.Before(since) || c.removing[key] != nil {
			return nil, false
		}
	}
	ended := make(chan struct{})
	for _, key := range keys {
		c.removing[key] = ended
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, key := range keys {
			delete(c.removing, key)
		}
		close(ended)
	}, true
}

// forget drops the claims from before since.
func (c *claims) forget(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, at := range c.claimed {
		if at.Before(since) {
			delete(c.claimed, key)
		}
	}
}
