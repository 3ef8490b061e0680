// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package worker

import (
	"errors"
	"os/exec"
)

// Reaper exists on Linux only. A nil Reaper only starts.
type Reaper struct{}

// NewReaper fails: there are no containers to be PID 1 of.
func NewReaper() (*Reaper, error) { return nil, errors.ErrUnsupported }

func (r *Reaper) start(cmd *exec.Cmd) error { return cmd.Start() }

func (r *Reaper) ended(*exec.Cmd) {}
