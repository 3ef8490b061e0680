// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/objectstore"
)

const (
	// cleanupJitter keeps the passes of many installations apart.
	cleanupJitter = 0.1
	// maxRemovals and maxVisits bound one pass: how much is removed, and how many requests are made to look around in the
	// registry. The rest has to wait for the next one.
	maxRemovals = 1000
	maxVisits   = 5000
	// maxProblems bounds what one pass says about what went wrong.
	maxProblems = 10
	// removalTimeout bounds the removal of one object or image. A controller that wants it back waits as long.
	removalTimeout = 30 * time.Second
)

// cleaner removes code from the object store, and images from the registry, that no Function needs any more. It works
// for the user namespaces that have Functions, and for those whose record says that Functions were deleted there; it never
// looks at anything else in the store or the registry.
//
// What nothing needs is marked with the time at which that was seen first, in the record of the namespace, and removed when
// the mark is older than the grace. Right before, the Functions of the namespace are read from the API server itself, and
// the claims of this process are asked.
type cleaner struct {
	client.Client
	// reader reads past the cache.
	reader client.Reader
	config *config.Config
	store  objectstore.Store
	images Images
	clock  clock.PassiveClock
	// metrics counts what was done.
	metrics *cleanupMetrics

	*memory
	// visits are what was found in the repositories, by namespace and name. before are the names of the Functions that the
	// last pass has seen, by namespace. Only passes use them, one at a time.
	visits map[string]*visit
	before map[string][]string
	// installation is the name by which this installation marks its bucket.
	installation string
	// refusedUntil is the end of the time in which a registry that refused to delete is not asked again.
	refusedUntil time.Time
}

var (
	_ manager.Runnable               = (*cleaner)(nil)
	_ manager.LeaderElectionRunnable = (*cleaner)(nil)
)

func newCleaner(r *FunctionReconciler, metrics *cleanupMetrics) *cleaner {
	return &cleaner{
		Client: r.Client, reader: r.APIReader, config: r.Config, store: r.Store, images: r.Images, clock: r.Clock,
		metrics: metrics, memory: r.memory, visits: map[string]*visit{},
	}
}

// NeedLeaderElection says that one manager cleans.
func (c *cleaner) NeedLeaderElection() bool { return true }

// Start makes passes until the context ends.
func (c *cleaner) Start(ctx context.Context) error {
	logger := ctrl.Log.WithName("cleanup")
	ctx = log.IntoContext(ctx, logger)
	interval := c.config.Cleanup.Interval.Duration
	// The first pass leaves the start to the controllers.
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(wait.Jitter(interval/10, cleanupJitter)):
	}
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		if err := c.pass(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, "Failed to clean up, trying again", "after", interval)
		}
	}, interval, cleanupJitter, true)
	return nil
}

// sweep is one pass.
type sweep struct {
	now   time.Time
	usage *plan.Usage
	// functions are the Functions of each user namespace.
	functions map[string][]*v1alpha1.Function
	records   map[string]*cleanupRecord
	// removals and visits are what is left of the bounds of a pass.
	removals, visits int
	// storeDown and registryDown are set when a server does not answer: it is not asked again in this pass.
	storeDown, registryDown bool
	objects, imagesRemoved  int
	bytes                   int64
	// unneeded counts what waits for the end of its grace.
	unneededObjects, unneededImages int
}

// since is the time before which something must have been needed last to be removed now.
func (c *cleaner) since(s *sweep) time.Time { return s.now.Add(-c.config.Cleanup.Grace.Duration) }

// pass looks at every namespace once. It goes on after an error in one of them.
func (c *cleaner) pass(ctx context.Context) error {
	mine, err := c.ownsBucket(ctx)
	if err != nil || !mine {
		c.metrics.passed(err)
		return err
	}
	s := &sweep{now: c.clock.Now(), removals: maxRemovals, visits: maxVisits}
	// Before the usage is read: whoever claims something later is not seen by it.
	c.claims.forget(c.since(s))
	if err := c.observe(ctx, s); err != nil {
		c.metrics.passed(err)
		return err
	}
	var problems []error
	// In no order, so that the bounds of a pass do not always meet the same ones.
	for namespace := range c.namespaces(s) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := c.cleanNamespace(ctx, s, namespace); err != nil && len(problems) < maxProblems {
			problems = append(problems, fmt.Errorf("namespace %s: %w", namespace, err))
		}
	}
	c.forgetVisits(s)
	c.remember(s)
	err = errors.Join(problems...)
	c.finishPass(ctx, s, err)
	return err
}

// namespaces gives those to look at: with Functions now, with Functions in the last pass, or with a record.
func (c *cleaner) namespaces(s *sweep) map[string]bool {
	namespaces := map[string]bool{}
	for namespace := range s.functions {
		namespaces[namespace] = true
	}
	for namespace := range s.records {
		namespaces[namespace] = true
	}
	for namespace := range c.before {
		namespaces[namespace] = true
	}
	return namespaces
}

// remember keeps the names of the Functions for the next pass.
func (c *cleaner) remember(s *sweep) {
	c.before = map[string][]string{}
	for namespace, functions := range s.functions {
		for _, fn := range functions {
			c.before[namespace] = append(c.before[namespace], fn.Name)
		}
	}
}

func (c *cleaner) finishPass(ctx context.Context, s *sweep, err error) {
	c.metrics.passed(err)
	c.metrics.unneeded.WithLabelValues(cleanupObjects).Set(float64(s.unneededObjects))
	c.metrics.unneeded.WithLabelValues(cleanupImages).Set(float64(s.unneededImages))
	logger := log.FromContext(ctx)
	if s.objects+s.imagesRemoved > 0 {
		logger.Info("Removed what no Function needs", "objects", s.objects, "bytes", s.bytes, "images", s.imagesRemoved)
	}
	logger.V(1).Info("Looked for what no Function needs", "namespaces", len(s.functions),
		"unneededObjects", s.unneededObjects, "unneededImages", s.unneededImages)
}

// observe reads, from the cache, what is needed.
func (c *cleaner) observe(ctx context.Context, s *sweep) (err error) {
	if s.records, err = c.readRecords(ctx); err != nil {
		return err
	}
	s.usage, s.functions = plan.NewUsage(), map[string][]*v1alpha1.Function{}
	functions := &v1alpha1.FunctionList{}
	if err := c.List(ctx, functions); err != nil {
		return fmt.Errorf("listing the Functions: %w", err)
	}
	for i := range functions.Items {
		fn := &functions.Items[i]
		s.usage.AddFunction(fn)
		s.functions[fn.Namespace] = append(s.functions[fn.Namespace], fn)
	}
	// The cache holds what sless made, and nothing else.
	deployments, jobs, pods := &appsv1.DeploymentList{}, &batchv1.JobList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{deployments, jobs, pods} {
		if err := c.List(ctx, list); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
	}
	for i := range deployments.Items {
		s.usage.AddPod(&deployments.Items[i].Spec.Template.Spec)
	}
	for i := range jobs.Items {
		s.usage.AddBuild(&jobs.Items[i].Spec.Template.Spec)
	}
	for i := range pods.Items {
		s.usage.AddPod(&pods.Items[i].Spec)
	}
	return nil
}

// cleanNamespace looks at what is stored for a namespace, and writes down what it found.
func (c *cleaner) cleanNamespace(ctx context.Context, s *sweep, namespace string) error {
	record := s.records[namespace]
	if record == nil {
		record = newRecord(namespace)
	}
	record.noteMissing(missingNames(c.before[namespace], s.functions[namespace]), s.now)
	n := &namespaceSweep{sweep: s, namespace: namespace, record: record, functions: s.functions[namespace]}
	objectsErr := c.cleanObjects(ctx, n)
	imagesErr := c.cleanImages(ctx, n)
	n.closeRecord()
	return errors.Join(objectsErr, imagesErr, c.saveRecord(ctx, record))
}

// namespaceSweep is the part of a pass that is about one namespace.
type namespaceSweep struct {
	*sweep

	namespace string
	functions []*v1alpha1.Function
	record    *cleanupRecord
	// fresh is set once the Functions were read past the cache.
	fresh bool
	// objectsLeft tells whether there may be objects; emptyRepositories are those that are known to hold nothing for this
	// namespace.
	objectsLeft       bool
	emptyRepositories map[string]bool
	dependencies      string
	repositoryOf      map[string]string // of each Function, by name
}

// refresh adds to the usage what the API server itself says of the namespace, because the cache may be behind: a Function
// may just have been pointed at old code.
func (c *cleaner) refresh(ctx context.Context, n *namespaceSweep) error {
	if n.fresh {
		return nil
	}
	list := &v1alpha1.FunctionList{}
	for {
		err := c.reader.List(ctx, list, client.InNamespace(n.namespace), client.Limit(functionPage), client.Continue(list.Continue))
		if err != nil {
			return fmt.Errorf("reading the Functions: %w", err)
		}
		for i := range list.Items {
			n.usage.AddFunction(&list.Items[i])
		}
		if list.Continue == "" {
			n.fresh = true
			return nil
		}
	}
}

// functionPage is how many Functions are read at once.
const functionPage = 200

// closeRecord drops what is settled. A deleted Function's entry goes when nothing of it is left; the last one of a namespace
// without Functions stays while there is anything of the namespace, because it is what leads there.
func (n *namespaceSweep) closeRecord() {
	settled := n.emptyRepositories[n.dependencies] && !n.objectsLeft
	for _, name := range slices.Sorted(maps.Keys(n.record.deleted)) {
		alive := slices.ContainsFunc(n.functions, func(fn *v1alpha1.Function) bool { return fn.Name == name })
		gone := n.emptyRepositories[n.repositoryOf[name]]
		if alive || gone && (settled || len(n.functions) > 0 || len(n.record.deleted) > 1) {
			delete(n.record.deleted, name)
		}
	}
}

// setupCleanup lets the manager clean up, unless that is switched off.
func setupCleanup(mgr ctrl.Manager, r *FunctionReconciler) error {
	if !r.Config.Cleanup.On() {
		return nil
	}
	metrics, err := newCleanupMetrics(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	if err := mgr.Add(newCleaner(r, metrics)); err != nil {
		return fmt.Errorf("adding the clean-up: %w", err)
	}
	return nil
}
