// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestZeroAfter(t *testing.T) {
	t.Parallel()
	answer := time.Unix(1000, 0)
	after := func(s int) time.Time { return answer.Add(time.Duration(s) * time.Second) }
	up := record{at: after(-1), obj: wakeReplicas("cart", 1)}
	down := record{at: after(5), obj: wakeReplicas("cart", 0)}
	tests := map[string]struct {
		records              []record
		wantScaled, wantGone time.Time
	}{
		"nothing":   {},
		"still up":  {records: []record{up, {at: after(2), obj: wakeReplicas("cart", 1)}}},
		"before":    {records: []record{{at: after(-2), obj: wakeReplicas("cart", 0)}, up}},
		"another's": {records: []record{{at: after(2), obj: wakeReplicas("other", 0)}}},
		"pod is leaving": {
			records: []record{
				up, {at: after(1), obj: wakePod("cart", "earlier", "node"), deleted: true}, down,
				{at: after(6), obj: wakePod("cart", "cart-1", "node")},
			},
			wantScaled: after(5),
		},
		"at zero": {
			records: []record{
				up, down, {at: after(7), obj: wakePod("cart", "cart-1", "node"), deleted: true},
				{at: after(8), obj: wakePod("cart", "cart-2", "node"), deleted: true}, {at: after(9), obj: wakeReplicas("cart", 0)},
			},
			wantScaled: after(5), wantGone: after(8),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scaled, gone := zeroAfter(tc.records, "cart", answer)
			if !scaled.Equal(tc.wantScaled) || !gone.Equal(tc.wantGone) {
				t.Errorf("scaled %s, gone %s, want %s, %s", scaled, gone, tc.wantScaled, tc.wantGone)
			}
		})
	}
}

func TestNapRows(t *testing.T) {
	t.Parallel()
	n := newNap(&sleeper{bench: &bench{now: time.Now}, name: "cart"}, 10)
	n.add(12*time.Second, 13*time.Second)
	n.add(9*time.Second, 10*time.Second)
	n.add(14*time.Second, 15*time.Second)
	want := [][]string{
		{"idleSeconds 10: Deployment scaled to zero", "3", "12.0 s", "14.0 s", "14.0 s", "0", "2000 ms", "1"},
		{"idleSeconds 10: last pod gone", "3", "13.0 s", "15.0 s", "15.0 s", "0", "", ""},
	}
	if diff := cmp.Diff(want, n.rows()); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
