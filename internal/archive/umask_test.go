// SPDX-License-Identifier: Apache-2.0

//go:build unix

package archive

import (
	"syscall"
	"testing"
)

// setUmask sets the umask of the process for the length of a test, which therefore must not run beside others.
func setUmask(t *testing.T, mask int) {
	t.Helper()
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}
