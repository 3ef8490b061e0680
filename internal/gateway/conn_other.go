// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package gateway

import "syscall"

// unusable is not known on this system.
func unusable(syscall.RawConn) bool {
	return false
}
