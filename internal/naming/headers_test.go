// SPDX-License-Identifier: Apache-2.0

package naming

import "testing"

func TestIsInternalHeader(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		BusyHeader: true, "X-Sless-Cold-Start": true, "X-Keda-Http-Cold-Start": true,
		"X-Slessly": false, "X-Request-Id": false, "Server-Timing": false, "": false,
	} {
		if got := IsInternalHeader(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
