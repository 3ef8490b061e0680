// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNextCleanup(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	ago := func(hours int) time.Time { return now.Add(-time.Duration(hours) * time.Hour) }
	type marks = map[string]time.Time
	tests := map[string]struct {
		items      []CleanupItem
		marks      marks
		room       int
		wantRemove []string
		wantMarks  marks
	}{
		"nothing": {wantMarks: marks{}},
		"what is needed has no mark, however old it is": {
			items: []CleanupItem{{ID: "a", Modified: ago(900), Needed: true}}, wantMarks: marks{},
		},
		"what is seen unneeded for the first time is only marked, however old it is": {
			items: []CleanupItem{{ID: "a", Modified: ago(900)}}, wantMarks: marks{"a": now},
		},
		"within the grace it stays": {
			items: []CleanupItem{{ID: "a", Modified: ago(900)}}, marks: marks{"a": ago(23)}, wantMarks: marks{"a": ago(23)},
		},
		"after the grace it goes, and its mark stays until it is gone": {
			items: []CleanupItem{{ID: "a", Modified: ago(900)}}, marks: marks{"a": ago(24)},
			wantRemove: []string{"a"}, wantMarks: marks{"a": ago(24)},
		},
		"an image, whose age nobody knows": {
			items: []CleanupItem{{ID: "a"}}, marks: marks{"a": ago(24)}, wantRemove: []string{"a"}, wantMarks: marks{"a": ago(24)},
		},
		"stored again within the grace": {
			items: []CleanupItem{{ID: "a", Modified: ago(2)}}, marks: marks{"a": ago(30)}, wantMarks: marks{"a": ago(30)},
		},
		"needed again loses its mark": {
			items: []CleanupItem{{ID: "a", Needed: true}}, marks: marks{"a": ago(100)}, wantMarks: marks{},
		},
		"what is gone loses its mark": {marks: marks{"a": ago(100)}, wantMarks: marks{}},
		"the clock was put back": {
			items: []CleanupItem{{ID: "a"}}, marks: marks{"a": ago(-5)}, wantMarks: marks{"a": ago(-5)},
		},
		"the longest unneeded goes first": {
			items:      []CleanupItem{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d", Modified: ago(25)}},
			marks:      marks{"a": ago(30), "b": ago(40), "c": ago(30), "d": ago(50)},
			wantRemove: []string{"b", "a", "c", "d"}, wantMarks: marks{"a": ago(30), "b": ago(40), "c": ago(30), "d": ago(50)},
		},
		"no room for another mark": {
			items: []CleanupItem{{ID: "a"}, {ID: "b"}, {ID: "c"}}, marks: marks{"b": ago(30)}, room: 2,
			wantRemove: []string{"b"}, wantMarks: marks{"a": now, "b": ago(30)},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := CleanupState{Items: tc.items, Marks: tc.marks, Room: tc.room, Now: now, Grace: 24 * time.Hour}
			if state.Room == 0 {
				state.Room = MaxMarks
			}
			want := CleanupPlan{Remove: tc.wantRemove, Marks: tc.wantMarks}
			if diff := cmp.Diff(want, NextCleanup(state)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
