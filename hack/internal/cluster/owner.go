// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/naeel/sless/hack/internal/pki"
	"github.com/naeel/sless/hack/internal/progress"
)

// readOwner gives the checkout that the state folder belongs to, "" when there is no state folder.
func (c *Cluster) readOwner() (string, error) {
	data, err := os.ReadFile(c.paths.owner())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(data)), err
}

// claim makes the state folder and writes its owner.
func (c *Cluster) claim() error {
	if err := os.MkdirAll(c.paths.state, 0o755); err != nil {
		return err
	}
	return pki.WriteFile(c.paths.owner(), []byte(c.Checkout+"\n"), 0o644)
}

const lockPoll = 200 * time.Millisecond

// lock makes sure that one command at a time works on the cluster of this machine. The lock file goes away again, so a
// lock on a file that is no longer at its path counts for nothing.
func lock(ctx context.Context, path string, say progress.Say) (unlock func(), err error) {
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && sameFile(f, path) {
			return func() {
				_ = os.Remove(path)
				_ = f.Close()
			}, nil
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		say("waiting for another command that works on the cluster")
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

func sameFile(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
