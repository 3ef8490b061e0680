// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Limits of restarting a worker that ends by itself.
const (
	// maxCrashes in a row, each within crashWindow of its start, end the watchdog: the kubelet takes over.
	maxCrashes  = 5
	crashWindow = time.Minute
	firstDelay  = 100 * time.Millisecond
	maxDelay    = 5 * time.Second
	stopGrace   = 2 * time.Second
)

// Supervisor keeps one worker running. A worker with a call that ran into its timeout is retired: it gets no new calls,
// its replacement is started at once, and it is killed when the last of its other calls has ended, which their own
// timeouts bound. So there are never more than two workers for longer than it takes to start one.
type Supervisor struct {
	// Launch starts a worker with a loaded handler.
	Launch func(context.Context) (*Process, error)
	// Now is the clock.
	Now func() time.Time
	Log *slog.Logger
	// OnLoad and OnRestart are told of each loaded worker and of each worker that is replaced.
	OnLoad    func(time.Duration)
	OnRestart func(reason string)

	mu      sync.Mutex
	current *Lease         // nil while no worker is ready
	changed chan struct{}  // closed and replaced when current changes
	workers sync.WaitGroup // live processes
}

// Lease is a worker with the number of calls that use it.
type Lease struct {
	*Process
	calls   int
	retired chan struct{}
}

// NewSupervisor returns a Supervisor without a worker; Run starts it.
func NewSupervisor(launch func(context.Context) (*Process, error), log *slog.Logger) *Supervisor {
	return &Supervisor{
		Launch: launch, Now: time.Now, Log: log, changed: make(chan struct{}),
		OnLoad: func(time.Duration) {}, OnRestart: func(string) {},
	}
}

// Run starts the worker and replaces it until ctx ends; then it stops the worker and returns nil. It returns a
// *LoadError when the handler cannot be loaded at first, and the last cause when the worker keeps crashing.
func (s *Supervisor) Run(ctx context.Context) error {
	defer s.workers.Wait()
	crashes := 0
	for first := true; ; first = false {
		started := s.Now()
		cause := s.runOne(ctx, started)
		switch {
		case ctx.Err() != nil:
			return nil
		case cause == nil: // retired
			s.OnRestart("timeout")
			continue
		case first && isLoadError(cause):
			return cause
		}
		s.OnRestart("crash")
		if s.Now().Sub(started) > crashWindow {
			crashes = 0
		}
		if crashes++; crashes >= maxCrashes {
			return fmt.Errorf("%w; %d times in a row", cause, crashes)
		}
		delay := min(firstDelay<<(crashes-1), maxDelay)
		s.Log.Error("Restarting the worker", "cause", cause, "crashes", crashes, "delay", delay)
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

func isLoadError(err error) bool {
	var load *LoadError
	return errors.As(err, &load)
}

// runOne runs a worker until it crashes (the cause), is retired (nil) or ctx ends.
func (s *Supervisor) runOne(ctx context.Context, started time.Time) error {
	process, err := s.Launch(ctx)
	if err != nil {
		return err
	}
	s.workers.Go(func() {
		select {
		case <-process.Done():
		case <-ctx.Done():
			process.Stop(stopGrace)
		}
	})
	loading := s.Now().Sub(started)
	s.Log.Info("Loaded the handler", "duration", loading)
	s.OnLoad(loading)
	lease := &Lease{Process: process, retired: make(chan struct{})}
	s.publish(lease)
	select {
	case <-ctx.Done():
		s.publish(nil)
		return nil
	case <-lease.retired:
		return nil
	case <-process.Done():
		s.publish(nil)
		return process.Crash()
	}
}

func (s *Supervisor) publish(lease *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publishLocked(lease)
}

func (s *Supervisor) publishLocked(lease *Lease) {
	s.current = lease
	close(s.changed)
	s.changed = make(chan struct{})
}

// Ready tells whether a worker with a loaded handler is there.
func (s *Supervisor) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil
}

// Acquire returns the worker for one call, and waits for one while it is being started. Every Lease is released once.
func (s *Supervisor) Acquire(ctx context.Context) (*Lease, error) {
	for {
		s.mu.Lock()
		lease, changed := s.current, s.changed
		if lease != nil {
			lease.calls++
			s.mu.Unlock()
			return lease, nil
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		}
	}
}

// Release ends the use of a worker by one call.
func (s *Supervisor) Release(lease *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease.calls--
	s.killIdleLocked(lease)
}

// Retire takes a worker out of service because one of its calls cannot be stopped. The caller still releases it.
func (s *Supervisor) Retire(lease *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-lease.retired:
		return
	default:
		close(lease.retired)
	}
	if s.current == lease {
		s.publishLocked(nil)
	}
}

func (s *Supervisor) killIdleLocked(lease *Lease) {
	select {
	case <-lease.retired:
		if lease.calls == 0 {
			lease.Kill()
		}
	default:
	}
}
