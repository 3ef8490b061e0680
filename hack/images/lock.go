// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockPoll is how often a waiting run looks again.
const lockPoll = 200 * time.Millisecond

// lock waits until no other run of the command uses the cache. The file stays open, and so locked, until the process
// ends.
func (w *workshop) lock(ctx context.Context, command string) error {
	f, err := os.OpenFile(filepath.Join(w.dir, command+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			w.held = f
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return errors.Join(fmt.Errorf("locking %s: %w", f.Name(), err), f.Close())
		}
		if first {
			w.progress.Printf("Waiting for another run that makes images")
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), f.Close())
		case <-time.After(lockPoll):
		}
	}
}
