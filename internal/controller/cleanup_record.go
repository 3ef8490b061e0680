// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
)

const (
	// deletedKey begins the keys of deleted Functions in the data of a record.
	deletedKey = "function."
	// marksKey is the key of the marks.
	marksKey = "unneeded"
	// recordPage is how many records are read at once. One is a few 100 KiB at most.
	recordPage = 20
	// maxDeleted bounds the deleted Functions in a record. Images of further ones stay.
	maxDeleted = 5000
)

// cleanupRecord is what the cleaning must not forget about a user namespace. It is kept in a ConfigMap of the builds
// namespace, because both the user's and the deploy namespace may be deleted by their owners, and because not every
// registry can list its repositories.
//
// It has two writers, which do not meet: the finalizer of a Function adds a key of its own, and a pass of the cleaning
// writes all, with the resource version that it has read.
type cleanupRecord struct {
	namespace string
	// stored is the ConfigMap as it was read, or nil.
	stored *corev1.ConfigMap
	// deleted are the names of deleted Functions whose repositories may hold images, with the time of the deletion.
	deleted map[string]string
	// marks says since when things have been seen unneeded.
	marks map[string]time.Time
}

func newRecord(namespace string) *cleanupRecord {
	return &cleanupRecord{namespace: namespace, deleted: map[string]string{}, marks: map[string]time.Time{}}
}

func recordFrom(cm *corev1.ConfigMap) *cleanupRecord {
	record := newRecord(cm.Labels[v1alpha1.LabelNamespace])
	record.stored = cm
	for key, value := range cm.Data {
		if name, ok := strings.CutPrefix(key, deletedKey); ok {
			record.deleted[name] = value
		}
	}
	seconds := map[string]int64{}
	if err := json.Unmarshal([]byte(cm.Data[marksKey]), &seconds); err != nil {
		return record // Without marks the time of grace starts anew.
	}
	for id, at := range seconds {
		record.marks[id] = time.Unix(at, 0)
	}
	return record
}

// data is what the record is stored as.
func (r *cleanupRecord) data() (map[string]string, error) {
	data := map[string]string{}
	for name, at := range r.deleted {
		data[deletedKey+name] = at
	}
	if len(r.marks) == 0 {
		return data, nil
	}
	seconds := make(map[string]int64, len(r.marks))
	for id, at := range r.marks {
		seconds[id] = at.Unix()
	}
	text, err := json.Marshal(seconds)
	data[marksKey] = string(text)
	return data, err
}

// marked gives the marks of a group, whose IDs begin alike.
func (r *cleanupRecord) marked(group string) map[string]time.Time {
	marks := map[string]time.Time{}
	for id, at := range r.marks {
		if strings.HasPrefix(id, group) {
			marks[id] = at
		}
	}
	return marks
}

// room is how many marks a group may have.
func (r *cleanupRecord) room(group string) int {
	return plan.MaxMarks - len(r.marks) + len(r.marked(group))
}

func (r *cleanupRecord) setMarks(group string, marks map[string]time.Time) {
	maps.DeleteFunc(r.marks, func(id string, _ time.Time) bool { return strings.HasPrefix(id, group) })
	maps.Copy(r.marks, marks)
}

// dropMarks drops the marks of images in other repositories than those to look at: nobody would come to them.
func (r *cleanupRecord) dropMarks(repositories iter.Seq[string]) {
	groups := map[string]bool{}
	for repository := range repositories {
		groups[imageGroup(repository)] = true
	}
	maps.DeleteFunc(r.marks, func(id string, _ time.Time) bool {
		group, _, _ := strings.Cut(id, "@")
		return strings.HasPrefix(id, imageMark) && !groups[group+"@"]
	})
}

// noteMissing adds Functions that were there in an earlier pass and are gone without an entry, for instance because somebody
// took their finalizer away.
func (r *cleanupRecord) noteMissing(names []string, now time.Time) {
	for _, name := range names {
		if r.deleted[name] == "" && len(r.deleted) < maxDeleted {
			r.deleted[name] = now.UTC().Format(time.RFC3339)
		}
	}
}

// readRecords reads all records, by user namespace.
func (c *cleaner) readRecords(ctx context.Context) (map[string]*cleanupRecord, error) {
	records := map[string]*cleanupRecord{}
	ours := client.MatchingLabels(resources.CleanupRecordLabels())
	list := &corev1.ConfigMapList{}
	for {
		err := c.reader.List(ctx, list, client.InNamespace(c.config.Builds.Namespace), ours,
			client.Limit(recordPage), client.Continue(list.Continue))
		if err != nil {
			return nil, fmt.Errorf("reading the records of the clean-up: %w", err)
		}
		for i := range list.Items {
			record := recordFrom(list.Items[i].DeepCopy())
			records[record.namespace] = record
		}
		if list.Continue == "" {
			return records, nil
		}
	}
}

// saveRecord writes a record when it has changed, and removes it when it says nothing. When a Function was deleted since it
// was read, nothing is written: the next pass comes to the same.
func (c *cleaner) saveRecord(ctx context.Context, record *cleanupRecord) error {
	data, err := record.data()
	if err != nil {
		return fmt.Errorf("encoding the record of the clean-up: %w", err)
	}
	switch {
	case record.stored == nil && len(data) == 0, record.stored != nil && maps.Equal(data, record.stored.Data) && len(data) > 0:
		return nil
	case record.stored == nil:
		cm := &corev1.ConfigMap{ObjectMeta: resources.CleanupRecordMeta(c.config.Builds.Namespace, record.namespace), Data: data}
		err = client.IgnoreAlreadyExists(c.Create(ctx, cm, client.FieldOwner(v1alpha1.FieldOwnerController)))
	case len(data) == 0:
		unchanged := client.Preconditions{ResourceVersion: &record.stored.ResourceVersion}
		err = client.IgnoreNotFound(c.Delete(ctx, record.stored, unchanged))
	default:
		cm := record.stored.DeepCopy()
		cm.Data = data
		patch := client.MergeFromWithOptions(record.stored, client.MergeFromWithOptimisticLock{})
		err = client.IgnoreNotFound(c.Patch(ctx, cm, patch, client.FieldOwner(v1alpha1.FieldOwnerController)))
	}
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing the record of the clean-up: %w", err)
	}
	return nil
}

// recordDeletion notes that a Function is being deleted, so that its images are found when nothing else tells of it any more.
// It never holds the deletion up: when it fails, the cleaning has to notice by itself that the Function is gone.
func (r *FunctionReconciler) recordDeletion(ctx context.Context, fn *v1alpha1.Function) {
	if !r.Config.Cleanup.On() {
		return
	}
	// A second pass over the same deletion changes nothing.
	at := fn.DeletionTimestamp.UTC().Format(time.RFC3339)
	cm := &corev1.ConfigMap{
		ObjectMeta: resources.CleanupRecordMeta(r.Config.Builds.Namespace, fn.Namespace), Data: map[string]string{deletedKey + fn.Name: at},
	}
	owner := client.FieldOwner(v1alpha1.FieldOwnerController)
	patch, err := json.Marshal(map[string]any{"data": cm.Data})
	for range 2 {
		if err != nil {
			break
		}
		err = r.Patch(ctx, cm.DeepCopy(), client.RawPatch(types.MergePatchType, patch), owner)
		if !apierrors.IsNotFound(err) {
			break
		}
		if err = r.Create(ctx, cm.DeepCopy(), owner); !apierrors.IsAlreadyExists(err) {
			break
		}
		err = nil // Somebody else created it at the same time.
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to note that images are to be cleaned up", "function", klog.KObj(fn))
	}
}

// missingNames gives the Functions of a namespace that were there in the last pass and are not any more.
func missingNames(before []string, now []*v1alpha1.Function) []string {
	return slices.DeleteFunc(slices.Clone(before), func(name string) bool {
		return slices.ContainsFunc(now, func(fn *v1alpha1.Function) bool { return fn.Name == name })
	})
}
