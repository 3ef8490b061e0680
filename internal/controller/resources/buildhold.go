// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of a build that was taken back because it got no pod.
const (
	heldUntilAnnotation = "sless.io/held-until"
	heldTimesAnnotation = "sless.io/held-times"
	heldForAnnotation   = "sless.io/held-for"
)

// Held says until when a suspended build pauses, and why. It is kept on the Job, so that a restart of the manager changes
// nothing.
type Held struct {
	Until time.Time
	// Times is how often it was taken back so far.
	Times int
	// Reason and Message are for the condition.
	Reason, Message string
}

// HeldOf reads what Hold has noted. A build that was never taken back gives the zero value.
func HeldOf(job *batchv1.Job) Held {
	held := Held{}
	// What is not ours to read counts as never written.
	held.Until, _ = time.Parse(time.RFC3339, job.Annotations[heldUntilAnnotation])
	held.Times, _ = strconv.Atoi(job.Annotations[heldTimesAnnotation])
	held.Reason, held.Message, _ = strings.Cut(job.Annotations[heldForAnnotation], ": ")
	return held
}

// Hold notes on a build that it pauses.
func Hold(job *batchv1.Job, held Held) {
	for name, value := range map[string]string{
		heldUntilAnnotation: held.Until.UTC().Format(time.RFC3339),
		heldTimesAnnotation: strconv.Itoa(held.Times),
		heldForAnnotation:   held.Reason + ": " + held.Message,
	} {
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, name, value)
	}
}
