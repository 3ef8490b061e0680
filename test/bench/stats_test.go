// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		values []int
		q      float64
		want   int
	}{
		"none":                       {q: 0.5, want: 0},
		"one":                        {values: []int{7}, q: 0.95, want: 7},
		"median of an odd number":    {values: []int{3, 1, 2}, q: 0.5, want: 2},
		"median of an even number":   {values: []int{4, 1, 3, 2}, q: 0.5, want: 2},
		"p95 of fifteen is the last": {values: []int{15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, q: 0.95, want: 15},
		"p95 of twenty": {
			values: []int{20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, q: 0.95, want: 19,
		},
		"least":    {values: []int{2, 1, 3}, q: 0, want: 1},
		"greatest": {values: []int{2, 3, 1}, q: 1, want: 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := quantile(tc.values, tc.q); got != tc.want {
				t.Errorf("quantile(%v, %v) = %d, want %d", tc.values, tc.q, got, tc.want)
			}
		})
	}
}

func TestQuantileLeavesTheValuesAlone(t *testing.T) {
	t.Parallel()
	values := []int{3, 1, 2}
	median(values)
	if diff := cmp.Diff([]int{3, 1, 2}, values); diff != "" {
		t.Errorf("the values changed (-want +got):\n%s", diff)
	}
}

func TestSampleRow(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		sample sample
		want   []string
	}{
		"nothing measured": {
			sample: sample{name: "a", failures: 2}, want: []string{"a", "2", "–", "–", "–", "2"},
		},
		"measured, with a failure": {
			sample: sample{name: "a", values: []time.Duration{3 * time.Second, time.Second, 2 * time.Second}, failures: 1},
			want:   []string{"a", "4", "2000 ms", "3000 ms", "3000 ms", "1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.sample.row()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			if len(got) != len(sampleColumns("x")) {
				t.Errorf("the row has %d cells for %d columns", len(got), len(sampleColumns("x")))
			}
		})
	}
}

func TestShowDuration(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		d    time.Duration
		want string
	}{
		"microseconds": {d: 512 * time.Microsecond, want: "0.51 ms"},
		"milliseconds": {d: 20*time.Millisecond + 600*time.Microsecond, want: "21 ms"},
		"seconds":      {d: 1085 * time.Millisecond, want: "1085 ms"},
		"many seconds": {d: 12345 * time.Millisecond, want: "12.3 s"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := showDuration(tc.d); got != tc.want {
				t.Errorf("showDuration(%d) = %q, want %q", tc.d, got, tc.want)
			}
		})
	}
}
