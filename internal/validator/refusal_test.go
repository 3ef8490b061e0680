// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// recordedEvents keeps what a recorder is given.
type recordedEvents struct {
	events.EventRecorder
	sent []sentEvent
}

type sentEvent struct {
	About                      corev1.ObjectReference
	Kind, Reason, Action, Note string
}

func (r *recordedEvents) Eventf(about, _ runtime.Object, kind, reason, action, note string, args ...any) {
	ref, ok := about.(*corev1.ObjectReference)
	if !ok {
		ref = &corev1.ObjectReference{}
	}
	r.sent = append(r.sent, sentEvent{About: *ref, Kind: kind, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...)})
}

func TestTell(t *testing.T) {
	t.Parallel()
	about := corev1.ObjectReference{APIVersion: "sless.io/v1alpha1", Kind: "Function", Namespace: "shop", Name: "cart"}
	stored := about
	stored.UID = "u1"
	tests := map[string]struct {
		refusal Refusal
		want    sentEvent
	}{
		"of a Function that is there": {
			refusal: Refusal{Namespace: "shop", Name: "cart", UID: "u1", Digest: codeDigest, Note: "100 % a miner"},
			want:    sentEvent{About: stored, Kind: "Warning", Reason: "CodeRejected", Action: "Review:0123456789ab", Note: "100 % a miner"},
		},
		"of one that is not": {
			refusal: Refusal{Namespace: "shop", Name: "cart", Digest: "0123456789abcdef", Note: "a miner"},
			want:    sentEvent{About: about, Kind: "Warning", Reason: "CodeRejected", Action: "Review:0123456789ab", Note: "a miner"},
		},
		"bounded": {
			refusal: Refusal{Namespace: "shop", Name: "cart", Digest: "ab", Note: strings.Repeat("ü", 600)},
			want:    sentEvent{About: about, Kind: "Warning", Reason: "CodeRejected", Action: "Review:ab", Note: strings.Repeat("ü", 500)},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := &recordedEvents{}
			tc.refusal.Tell(recorder)
			if diff := cmp.Diff([]sentEvent{tc.want}, recorder.sent); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
