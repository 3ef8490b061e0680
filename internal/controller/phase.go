// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"
)

// passTimeout bounds the phases of a pass, so that no server can hold a worker for ever. A server that falls silent is
// noticed by the transport long before; this is for one that goes on and gets nowhere, and for many tries in a row. The
// largest pass moves an archive of about 300 MiB twice, from the store and then to the registry, and has the time for that
// at 1 MiB/s. What a pass has found is remembered, so that a slower line needs more passes and not more luck.
const passTimeout = 10 * time.Minute

// runPhases runs the phases in order and stops at the first error: each stands on the ones before it. After the limit the
// phase that is under way fails; writing the status is no phase and has the caller's context.
func runPhases[S any](ctx context.Context, limit time.Duration, scope S, phases ...func(context.Context, S) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, phase := range phases {
		if err := phase(ctx, scope); err != nil {
			return err
		}
	}
	return nil
}
