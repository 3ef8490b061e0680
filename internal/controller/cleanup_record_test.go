// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	validation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
)

func TestRecordIsKept(t *testing.T) {
	t.Parallel()
	record := newRecord("shop")
	record.noteMissing([]string{"cart", "till"}, time.Unix(5000, 0))
	record.noteMissing([]string{"cart"}, time.Unix(9000, 0))
	record.setMarks(objectMark, map[string]time.Time{objectMark + "a": time.Unix(1000, 0)})
	record.setMarks(imageGroup("r:5000/sless-shop-cart"), map[string]time.Time{"image/sless-shop-cart@sha256:1": time.Unix(2000, 0)})
	data, err := record.data()
	if err != nil {
		t.Fatal(err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: resources.CleanupRecordMeta("sless-builds", "shop"), Data: data}
	read := recordFrom(cm)
	if diff := cmp.Diff(record.marks, read.marks); diff != "" {
		t.Error(diff)
	}
	want := map[string]string{"cart": "1970-01-01T01:23:20Z", "till": "1970-01-01T01:23:20Z"}
	if diff := cmp.Diff(want, read.deleted); diff != "" || read.namespace != "shop" {
		t.Error(read.namespace, diff)
	}
	for key := range data {
		if problems := validation.IsConfigMapKey(key); problems != nil {
			t.Errorf("%s: %v", key, problems)
		}
	}
}

func TestRecordIsDamaged(t *testing.T) {
	t.Parallel()
	cm := &corev1.ConfigMap{
		ObjectMeta: resources.CleanupRecordMeta("b", "shop"), Data: map[string]string{marksKey: "{", deletedKey + "cart": "then"},
	}
	if read := recordFrom(cm); len(read.marks) != 0 || read.deleted["cart"] != "then" {
		t.Errorf("got %+v", read)
	}
}

func TestRecordMarks(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	record := newRecord("shop")
	record.setMarks(objectMark, map[string]time.Time{"object/a": at, "object/b": at})
	record.setMarks(imageGroup("r/sless-shop-a"), map[string]time.Time{"image/sless-shop-a@1": at})
	record.setMarks(imageGroup("r/sless-shop-ab"), map[string]time.Time{"image/sless-shop-ab@1": at})
	record.setMarks(objectMark, map[string]time.Time{"object/b": at})
	if got := record.room(objectMark); got != plan.MaxMarks-2 {
		t.Errorf("there is room for %d objects", got)
	}
	record.dropMarks(slices.Values([]string{"r/sless-shop-ab", "r/sless-shop-deps"}))
	want := map[string]time.Time{"object/b": at, "image/sless-shop-ab@1": at}
	if diff := cmp.Diff(want, record.marks); diff != "" {
		t.Error(diff)
	}
}

// TestRecordFitsIntoAConfigMap fills a record up, with names as long as they can be.
func TestRecordFitsIntoAConfigMap(t *testing.T) {
	t.Parallel()
	record := newRecord("shop")
	for i := range plan.MaxMarks {
		id := fmt.Sprintf("image/sless-%063d-%052d@sha256:%064d", i, i, i)
		record.marks[id] = time.Unix(1_700_000_000, 0)
	}
	names := make([]string, 2*maxDeleted)
	for i := range names {
		names[i] = fmt.Sprintf("f%051d", i)
	}
	record.noteMissing(names, time.Unix(1_700_000_000, 0))
	data, err := record.data()
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for key, value := range data {
		size += len(key) + len(value)
	}
	if size > 1<<20-64<<10 {
		t.Errorf("a full record has %d bytes", size)
	}
}
