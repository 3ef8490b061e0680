// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// DefaultGrace is how long what nobody needs is kept.
	DefaultGrace = 24 * time.Hour
	// MinGrace is the shortest time of grace. The gateway stores code again when it is older than half of it, so half of it
	// has to be longer than what lies between that and the change of the Function reaching the manager.
	MinGrace = time.Minute
	// DefaultInterval is the pause between two passes of the cleaning.
	DefaultInterval = time.Hour
	// MinInterval keeps the registry and the object store from being asked all the time.
	MinInterval = 5 * time.Second
)

// Cleanup says whether and when code and images that no Function needs are removed.
type Cleanup struct {
	// Enabled is true by default. The object store and the path in the registry must then belong to this installation
	// alone.
	Enabled *bool `json:"enabled"`
	// DryRun logs what would be removed, and removes nothing.
	DryRun bool `json:"dryRun"`
	// Grace is how long something is kept after it was last written and last seen in use (24h by default, at least 1m).
	Grace metav1.Duration `json:"grace"`
	// Interval is the pause between two passes (1h by default, at least 5s).
	Interval metav1.Duration `json:"interval"`
}

// On tells whether there is any cleaning, dry or not.
func (c *Cleanup) On() bool { return ptr.Deref(c.Enabled, true) }

// RefreshAfter is the age at which stored code that is wanted again is stored again, so that it cannot be removed before
// its Function is seen. It is zero, for never, when nothing is removed.
func (c *Cleanup) RefreshAfter() time.Duration {
	if !c.On() {
		return 0
	}
	return c.Grace.Duration / 2
}

// SetDefaults fills in what is not set.
func (c *Cleanup) SetDefaults() {
	if c.Enabled == nil {
		c.Enabled = new(true)
	}
	if c.Grace.Duration == 0 {
		c.Grace.Duration = DefaultGrace
	}
	if c.Interval.Duration == 0 {
		c.Interval.Duration = DefaultInterval
	}
}

// validate says what is wrong.
func (c *Cleanup) validate() (problems []error) {
	if c.Grace.Duration < MinGrace {
		problems = append(problems, fmt.Errorf("cleanup.grace must be at least %s, not %s", MinGrace, c.Grace.Duration))
	}
	if c.Interval.Duration < MinInterval {
		problems = append(problems, fmt.Errorf("cleanup.interval must be at least %s, not %s", MinInterval, c.Interval.Duration))
	}
	return problems
}
