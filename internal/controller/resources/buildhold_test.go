// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHeldIsReadBack(t *testing.T) {
	t.Parallel()
	want := Held{
		Until: time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC), Times: 4,
		Reason: "QuotaExceeded", Message: "pods \"b\" is forbidden: exceeded quota: small",
	}
	tests := map[string]struct {
		annotations map[string]string
		hold        bool
		want        Held
	}{
		"never taken back": {},
		"taken back":       {hold: true, want: want},
		"other annotations stay, and are not read": {annotations: map[string]string{"a": "b"}, hold: true, want: want},
		"what somebody else wrote":                 {annotations: map[string]string{heldUntilAnnotation: "soon", heldTimesAnnotation: "often"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}
			if tc.hold {
				Hold(job, want)
			}
			if diff := cmp.Diff(tc.want, HeldOf(job)); diff != "" {
				t.Errorf("HeldOf (-want +got):\n%s", diff)
			}
		})
	}
}
