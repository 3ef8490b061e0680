//go:build !linux

// SPDX-License-Identifier: Apache-2.0

// Package early does nothing on systems that functions do not run on.
package early

// Take reports false: nothing was opened.
func Take(int) (fd int, ok bool) { return -1, false }
