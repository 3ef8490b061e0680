// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/naeel/sless/internal/objectstore"
	slesstest "github.com/naeel/sless/internal/testutil"
)

var testNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// TestRecordIsBounded keeps the newest verdicts of a code.
func TestRecordIsBounded(t *testing.T) {
	t.Parallel()
	store, _ := startStore(t)
	key := objectstore.ReviewKey("shop", codeDigest)
	if want := "shop/" + strings.TrimPrefix(codeDigest, "sha256:") + ".review.json"; key != want {
		t.Errorf("the key is %s, want %s", key, want)
	}
	for i := range maxRecorded + 3 {
		v := Verdict{Outcome: Rejected, Message: fmt.Sprintf("reason %d", i)}
		if err := writeRecord(t.Context(), store, key, fmt.Sprintf("v%d", i), v, testNow.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := readRecord(t.Context(), store, key)
	if err != nil || len(rec.Verdicts) != maxRecorded {
		t.Fatalf("got %d verdicts, %v", len(rec.Verdicts), err)
	}
	if _, ok := rec.verdict("v2"); ok {
		t.Error("an old verdict is still there")
	}
	if v, ok := rec.verdict("v10"); !ok || v.Message != "reason 10" {
		t.Errorf("the newest verdict is %+v", v)
	}
}

// TestForeignRecords has objects that this version did not write. None of them is a verdict, and the model is asked.
func TestForeignRecords(t *testing.T) {
	t.Parallel()
	store, _ := startStore(t)
	_, cfg := startModel(t, slesstest.ModelRejects("x"))
	version := newGate(t, cfg, Options{}).version("python3.11")
	tests := map[string]string{
		"no JSON":       "{",
		"other JSON":    "[]",
		"empty":         "",
		"large":         strings.Repeat(" ", 2*maxRecordBytes) + "{}",
		"a soft fail":   `{"verdicts":{"` + version + `":{"outcome":"soft-failed"}}}`,
		"off":           `{"verdicts":{"` + version + `":{"outcome":"off"}}}`,
		"no outcome":    `{"verdicts":{"` + version + `":{}}}`,
		"other version": `{"verdicts":{"x":{"outcome":"accepted"}}}`,
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := submission(strings.ReplaceAll(name, " ", "-"))
			key := objectstore.ReviewKey(s.Namespace, s.Digest)
			if err := store.Put(t.Context(), key, strings.NewReader(content), int64(len(content)), nil); err != nil {
				t.Fatal(err)
			}
			if v := review(t, newGate(t, cfg, Options{Store: store}), s); v.Outcome != Rejected {
				t.Errorf("got %+v", v)
			}
		})
	}
}

// A reason in the store is cleaned again: it is shown to people.
func TestRecordedReasonIsCleaned(t *testing.T) {
	t.Parallel()
	rec := record{Verdicts: map[string]recorded{"v": {Outcome: Rejected, Message: "a\n\x1b[0m" + strings.Repeat("b", 5000)}}}
	v, ok := rec.verdict("v")
	if !ok || strings.ContainsAny(v.Message, "\n\x1b") || len(v.Message) > MaxReasonBytes {
		t.Errorf("got %q", v.Message)
	}
}
