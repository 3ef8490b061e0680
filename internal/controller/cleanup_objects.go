// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/objectstore"
)

const (
	// objectMark begins the IDs of objects among the marks of a namespace.
	objectMark = "object/"
	// maxObjects is the most objects of a namespace that one pass looks at. Those after them are seen when others have
	// gone.
	maxObjects = 50_000
)

// cleanObjects removes the archives of a namespace that nothing has needed for long enough, and the verdicts about them.
// When the store does not answer, the marks stay as they are.
func (c *cleaner) cleanObjects(ctx context.Context, n *namespaceSweep) error {
	n.objectsLeft = true
	if n.storeDown {
		return nil
	}
	prefix := objectstore.CodePrefix(n.namespace)
	state := plan.CleanupState{
		Marks: n.record.marked(objectMark), Room: n.record.room(objectMark), Now: n.now, Grace: c.config.Cleanup.Grace.Duration,
	}
	n.objectsLeft = false
	for object, err := range c.store.List(ctx, prefix) {
		if err != nil {
			n.objectsLeft, n.storeDown = true, objectstore.IsUnavailable(err)
			return err
		}
		if !plan.IsCodeKey(object.Key) && !plan.IsReviewKey(object.Key) {
			continue
		}
		n.objectsLeft = true
		if len(state.Items) == maxObjects {
			break
		}
		needed := n.usage.NeedsObject(object.Key)
		if !needed {
			n.unneededObjects++
		}
		state.Items = append(state.Items, plan.CleanupItem{
			ID: objectMark + strings.TrimPrefix(object.Key, prefix), Modified: object.LastModified, Needed: needed,
		})
	}
	next := plan.NextCleanup(state)
	n.record.setMarks(objectMark, next.Marks)
	var problems []error
	for _, id := range next.Remove {
		if n.removals <= 0 || n.storeDown {
			break
		}
		err := c.removeObject(ctx, n, prefix+strings.TrimPrefix(id, objectMark))
		c.metrics.failed(cleanupObjects, err)
		n.storeDown = objectstore.IsUnavailable(err)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// removeObject removes an object, unless it is needed after all. That an object which was stored again in the meantime
// stays is what objectstore.Keep counts on.
func (c *cleaner) removeObject(ctx context.Context, n *namespaceSweep, key string) error {
	if err := c.refresh(ctx, n); err != nil {
		return err
	}
	if n.usage.NeedsObject(key) {
		return nil
	}
	logger := log.FromContext(ctx).WithValues("key", key)
	if c.config.Cleanup.DryRun {
		logger.Info("Would remove code that no Function needs")
		return nil
	}
	done, ok := c.claims.remove(c.since(n.sweep), objectClaim(key))
	if !ok {
		return nil
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	defer cancel()
	info, err := c.store.Stat(ctx, key)
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return nil
	case err != nil:
		return err
	case info.LastModified.After(c.since(n.sweep)):
		return nil
	}
	c.forgetObject(key)
	if err := c.store.Delete(ctx, key); err != nil {
		return err
	}
	logger.V(1).Info("Removed code that no Function needs", "bytes", info.Size)
	n.removals--
	n.objects++
	n.unneededObjects--
	n.bytes += info.Size
	c.metrics.removed.WithLabelValues(cleanupObjects).Inc()
	c.metrics.bytes.Add(float64(info.Size))
	return nil
}
