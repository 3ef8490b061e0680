// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/naeel/sless/api/v1alpha1"
)

// actionDigits of a digest are in the action of an event.
const actionDigits = 12

// Refusal is code that a review refused, for an event about it.
type Refusal struct {
	// Namespace and Name are those of the Function. UID is empty when it is not stored; the event then names it all the same.
	Namespace, Name string
	UID             types.UID
	// Digest is that of the code.
	Digest string
	// Note says what was refused and why, with the digest and without the code. At most 1000 bytes of it are sent.
	Note string
}

// maxNote is below what the API server accepts.
const maxNote = 1000

// Tell sends an event in the namespace of the Function. Refusals of the same code for the same Function that come within some
// minutes are counted in one event.
func (r Refusal) Tell(recorder events.EventRecorder) {
	// Without a resource version, by which no two events would be counted as one.
	about := &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Function", Namespace: r.Namespace, Name: r.Name, UID: r.UID,
	}
	note := r.Note
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "")
	}
	recorder.Eventf(about, nil, corev1.EventTypeWarning, v1alpha1.ReasonCodeRejected, r.action(), "%s", note)
}

// action tells refusals of different code apart: events about one object with the same reason and action are counted as
// one, which would hide all digests but the first.
func (r Refusal) action() string {
	code := digits(r.Digest)
	return "Review:" + code[:min(len(code), actionDigits)]
}
