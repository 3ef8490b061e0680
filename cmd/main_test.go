// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// awayStore is an object store that does not answer for some time.
type awayStore struct {
	asked, answersAfter int
	asking              func()
}

func (s *awayStore) EnsureBucket(context.Context) error {
	if s.asked++; s.asking != nil {
		s.asking()
	}
	if s.asked <= s.answersAfter {
		return errors.New("no answer")
	}
	return nil
}

// A store that is away ends the manager neither when the pauses have reached their longest, nor ever.
func TestEnsureBucket(t *testing.T) {
	t.Parallel()
	backoff := wait.Backoff{Duration: time.Microsecond, Factor: 2, Cap: 4 * time.Microsecond, Steps: bucketBackoff.Steps}
	store := &awayStore{answersAfter: 3 * bucketBackoff.Steps}
	if err := ensureBucket(store, backoff).Start(t.Context()); err != nil || store.asked != store.answersAfter+1 {
		t.Errorf("it was asked %d times, %v, want %d", store.asked, err, store.answersAfter+1)
	}
	ctx, stop := context.WithCancel(t.Context())
	store = &awayStore{answersAfter: 3, asking: stop}
	if err := ensureBucket(store, backoff).Start(ctx); err != nil || store.asked != 1 {
		t.Errorf("after the end of the manager it was asked %d times, %v, want 1", store.asked, err)
	}
}
