// SPDX-License-Identifier: Apache-2.0

package controller

import "context"

// runPhases runs the phases in order and stops at the first error: each stands on the ones before it.
func runPhases[S any](ctx context.Context, scope S, phases ...func(context.Context, S) error) error {
	for _, phase := range phases {
		if err := phase(ctx, scope); err != nil {
			return err
		}
	}
	return nil
}
