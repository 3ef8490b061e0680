// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	defaultGitInterval    = 5 * time.Minute
	minGitInterval        = 10 * time.Second
	defaultGitTimeout     = 120
	defaultGitMaxBytes    = 100 << 20
	defaultGitMaxParallel = 4
)

// Git says how code is fetched from git repositories.
type Git struct {
	// Interval is the time between two looks at a repository, for Functions that set none (5m by default). At least 10s;
	// 0s means that only those Functions are looked after that set an interval.
	Interval *metav1.Duration `json:"interval"`
	// TimeoutSeconds bounds one fetch (120 by default), at least 10.
	TimeoutSeconds int32 `json:"timeoutSeconds"`
	// MaxBytes is the most that is received of a repository in one fetch (100 MiB by default).
	MaxBytes int64 `json:"maxBytes"`
	// MaxConcurrent is the number of fetches that run at once (4 by default). It is kept to roughly, not exactly.
	MaxConcurrent int `json:"maxConcurrent"`
}

func (g *Git) setDefaults() {
	if g.Interval == nil {
		g.Interval = &metav1.Duration{Duration: defaultGitInterval}
	}
	if g.TimeoutSeconds == 0 {
		g.TimeoutSeconds = defaultGitTimeout
	}
	if g.MaxBytes == 0 {
		g.MaxBytes = defaultGitMaxBytes
	}
	if g.MaxConcurrent == 0 {
		g.MaxConcurrent = defaultGitMaxParallel
	}
}

func (g *Git) problems() []error {
	var problems []error
	if d := g.Interval.Duration; d != 0 && d < minGitInterval {
		problems = append(problems, fmt.Errorf("git.interval must be 0s (never) or at least %s, not %s", minGitInterval, d))
	}
	if g.TimeoutSeconds < 10 {
		problems = append(problems, fmt.Errorf("git.timeoutSeconds must be at least 10, not %d", g.TimeoutSeconds))
	}
	if g.MaxBytes < 1 {
		problems = append(problems, fmt.Errorf("git.maxBytes must be at least 1, not %d", g.MaxBytes))
	}
	if g.MaxConcurrent < 1 {
		problems = append(problems, fmt.Errorf("git.maxConcurrent must be at least 1, not %d", g.MaxConcurrent))
	}
	return problems
}
