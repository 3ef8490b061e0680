// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// MaxMarks bounds the marks of one namespace, which are kept in a ConfigMap. What is over it gets its mark when others have
// gone.
const MaxMarks = 2000

// CleanupItem is something that was stored for the Functions of a namespace: an archive, or an image.
type CleanupItem struct {
	// ID tells it from all others of the namespace.
	ID string
	// Modified is when it was last written. It is zero for images, of which registries do not tell.
	Modified time.Time
	// Needed means that something uses it.
	Needed bool
}

// CleanupState is what was seen of a namespace's part of the object store, or of one repository.
type CleanupState struct {
	// Items are all that there are.
	Items []CleanupItem
	// Marks says since when the items that nothing needed have been seen unneeded.
	Marks map[string]time.Time
	// Room is how many more marks may be kept.
	Room int
	Now  time.Time
	// Grace is how long what nothing needs is kept.
	Grace time.Duration
}

// CleanupPlan is what to do.
type CleanupPlan struct {
	// Remove lists the IDs of what nothing has needed for the whole time of grace, the longest unneeded first.
	Remove []string
	// Marks are the marks to keep. They hold those of Remove too, until these are not seen any more.
	Marks map[string]time.Time
}

// NextCleanup decides what to remove. Something is removed only after it was seen unneeded in an earlier pass, at least a
// time of grace ago, was never seen needed since, and was not written in that time either. When it is needed again, its mark
// goes and the time starts anew. Marks of what is not there any more go too.
func NextCleanup(state CleanupState) CleanupPlan {
	plan := CleanupPlan{Marks: map[string]time.Time{}}
	since := map[string]time.Time{}
	items := slices.SortedFunc(slices.Values(state.Items), func(a, b CleanupItem) int { return strings.Compare(a.ID, b.ID) })
	fresh := []CleanupItem{}
	for _, item := range items {
		marked, ok := state.Marks[item.ID]
		switch {
		case item.Needed:
		case ok:
			plan.Marks[item.ID] = marked
			if item.Modified.After(marked) {
				marked = item.Modified
			}
			since[item.ID] = marked
		default:
			fresh = append(fresh, item)
		}
	}
	for _, item := range fresh {
		if len(plan.Marks) < state.Room {
			plan.Marks[item.ID] = state.Now
		}
	}
	for id, at := range since {
		if state.Now.Sub(at) >= state.Grace {
			plan.Remove = append(plan.Remove, id)
		}
	}
	slices.SortFunc(plan.Remove, func(a, b string) int { return cmp.Or(since[a].Compare(since[b]), strings.Compare(a, b)) })
	return plan
}
