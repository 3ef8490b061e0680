// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

func TestRound(t *testing.T) {
	t.Parallel()
	for _, round := range []int{0, 1, 1234567} {
		job := &batchv1.Job{}
		SetRound(job, round)
		if got := RoundOf(job); got != round {
			t.Errorf("RoundOf = %d, want %d", got, round)
		}
	}
	for _, text := range []string{"", "-1", "x", "99999999999999999999"} {
		job := &batchv1.Job{}
		job.Annotations = map[string]string{roundAnnotation: text}
		if got := RoundOf(job); got != 0 {
			t.Errorf("RoundOf(%q) = %d", text, got)
		}
	}
}
