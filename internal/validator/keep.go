// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/naeel/sless/internal/objectstore"
)

const (
	// maxRecordBytes bounds what is read of a record of verdicts.
	maxRecordBytes = 64 << 10
	// maxRecorded is how many verdicts one code keeps, such as those of two runtimes.
	maxRecorded = 8
	// recordTimeout bounds a look into the store. Without a record the model is asked, so a slow store costs no more.
	recordTimeout = 3 * time.Second
)

// record is the object beside a stored archive: its verdicts by version.
type record struct {
	Verdicts map[string]recorded `json:"verdicts"`
}

type recorded struct {
	Outcome    Outcome   `json:"outcome"`
	Message    string    `json:"message,omitempty"`
	ReviewedAt time.Time `json:"reviewedAt"`
}

// verdict returns what was recorded under a version. Only definite verdicts count, whatever the object holds.
func (r record) verdict(version string) (Verdict, bool) {
	kept, ok := r.Verdicts[version]
	if !ok || !isDefinite(kept.Outcome) {
		return Verdict{}, false
	}
	return Verdict{Outcome: kept.Outcome, Message: cleanReason(kept.Message)}, true
}

func isDefinite(o Outcome) bool { return o == Accepted || o == Rejected }

// readRecord returns the record of a code, an empty one when there is none.
func readRecord(ctx context.Context, store objectstore.Store, key string) (rec record, err error) {
	content, _, err := store.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return record{}, nil
	}
	if err != nil {
		return record{}, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	data, err := io.ReadAll(io.LimitReader(content, maxRecordBytes))
	if err != nil {
		return record{}, fmt.Errorf("reading %s: %w", key, err)
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return record{}, fmt.Errorf("reading %s: %w", key, err)
	}
	return rec, nil
}

// writeRecord adds a verdict to the record of a code. Of two at once one may be lost, which costs one more question later.
func writeRecord(ctx context.Context, store objectstore.Store, key, version string, v Verdict, now time.Time) error {
	rec, err := readRecord(ctx, store, key)
	if _, damaged := errors.AsType[*json.SyntaxError](err); err != nil && !damaged {
		return err
	}
	if rec.Verdicts == nil {
		rec.Verdicts = map[string]recorded{}
	}
	rec.Verdicts[version] = recorded{Outcome: v.Outcome, Message: v.Message, ReviewedAt: now.UTC()}
	for len(rec.Verdicts) > maxRecorded {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(rec.Verdicts)), func(a, b string) int {
			return rec.Verdicts[a].ReviewedAt.Compare(rec.Verdicts[b].ReviewedAt)
		})
		delete(rec.Verdicts, oldest)
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	return store.Put(ctx, key, bytes.NewReader(data), int64(len(data)), nil)
}
