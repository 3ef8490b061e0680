// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"
)

// quantile returns the value below or at which the fraction q of the values lies (nearest rank, so it is always one of
// them), or the zero value when there are none.
func quantile[T cmp.Ordered](values []T, q float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func median[T cmp.Ordered](values []T) T { return quantile(values, 0.5) }

// sample is one measure over several runs.
type sample struct {
	name     string
	values   []time.Duration
	failures int
}

func (s *sample) add(d time.Duration) { s.values = append(s.values, d) }

// sampleColumns are the columns of sample.row.
func sampleColumns(first string) []string {
	return []string{first, "runs", "median", "p95", "max", "failures"}
}

func (s *sample) row() []string {
	return []string{
		s.name, strconv.Itoa(len(s.values) + s.failures), milliseconds(s.values, 0.5), milliseconds(s.values, 0.95),
		milliseconds(s.values, 1), strconv.Itoa(s.failures),
	}
}

func milliseconds(values []time.Duration, q float64) string {
	if len(values) == 0 {
		return "–"
	}
	return showDuration(quantile(values, q))
}

// showDuration keeps three digits that matter.
func showDuration(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 2, 64) + " ms"
	case d < 10*time.Second:
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + " ms"
	default:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
}
