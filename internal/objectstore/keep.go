// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// Archive is something to keep under its digest.
type Archive struct {
	// Key is that of CodeKey, so that what is there already is the same.
	Key     string
	Content io.ReaderAt
	// Size is the length of the content in bytes.
	Size int64
}

// Keep makes sure that an archive is in the store and stays there until its Function names it. It is stored when it is not
// there, and again when it is older than refreshAfter (zero: never); refreshed tells of the latter.
//
// Storing again keeps the clean-up of the manager away from the object:
//  1. The clean-up removes an object only when no Function has named it for the whole time of grace and the object is older
//     than that. It asks for the age right before it removes.
//  2. A caller passes half of the grace as refreshAfter. The object is then younger than that half, and the caller has the
//     other half to point a Function at it.
//  3. A removal that was decided just before the object was stored again can still take it away. A caller in another process
//     than the manager's calls Keep a second time, after it has changed the Function: whatever the clean-up decides from then
//     on, it sees the Function.
func Keep(ctx context.Context, store Store, a Archive, refreshAfter time.Duration, now time.Time) (refreshed bool, err error) {
	info, err := store.Stat(ctx, a.Key)
	found := err == nil && info.Size == a.Size
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return false, err
	case found && (refreshAfter == 0 || now.Sub(info.LastModified) < refreshAfter):
		return false, nil
	}
	// The store's client must not close what it reads from.
	return found, store.Put(ctx, a.Key, io.NewSectionReader(a.Content, 0, a.Size), a.Size, nil)
}
