// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// roundAnnotation holds the round of a build or a fetch.
const roundAnnotation = "sless.io/queue-round"

// RoundOf returns the round in which a Job gets its slot. One without a round is of the first, 0.
func RoundOf(job *batchv1.Job) int {
	round, err := strconv.Atoi(job.Annotations[roundAnnotation])
	if err != nil || round < 0 {
		return 0
	}
	return round
}

// SetRound notes the round of a Job that is about to be made.
func SetRound(job *batchv1.Job, round int) {
	if round == 0 {
		return
	}
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, roundAnnotation, strconv.Itoa(round))
}
