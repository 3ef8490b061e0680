// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// record is one change of an object, with the moment at which a watch told of it. The times in the objects themselves
// are whole seconds and no use here.
type record struct {
	at  time.Time
	obj client.Object
	// added and deleted tell the first and the last change of an object from those between.
	added, deleted bool
}

// recorder keeps all changes of the objects that matter, from the last reset on.
type recorder struct {
	now func() time.Time

	mu      sync.Mutex
	records []record
}

// maxRecords bounds the memory of one run.
const maxRecords = 100_000

// startRecorder watches until ctx ends.
func startRecorder(
	ctx context.Context, config *rest.Config, scheme *runtime.Scheme, now func() time.Time,
) (*recorder, error) {
	watched, err := cache.New(config, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{
		benchNamespace: {}, naming.DeployNamespace(benchNamespace): {}, buildNamespace: {},
	}})
	if err != nil {
		return nil, fmt.Errorf("watching the cluster: %w", err)
	}
	r := &recorder{now: now}
	go func() { _ = watched.Start(ctx) }()
	for _, obj := range []client.Object{
		&v1alpha1.Function{}, &appsv1.Deployment{}, &appsv1.ReplicaSet{}, &corev1.Pod{}, &corev1.Service{},
		&corev1.Event{}, &discoveryv1.EndpointSlice{}, &batchv1.Job{}, &v1alpha1.FunctionJob{},
	} {
		informer, err := watched.GetInformer(ctx, obj)
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", obj, err)
		}
		if _, err := informer.AddEventHandler(r.handler()); err != nil {
			return nil, fmt.Errorf("watching %T: %w", obj, err)
		}
	}
	if !watched.WaitForCacheSync(ctx) {
		return nil, errors.New("the watches did not start")
	}
	return r, nil
}

func (r *recorder) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial {
				r.put(obj, true, false)
			}
		},
		UpdateFunc: func(_, obj any) { r.put(obj, false, false) },
		DeleteFunc: func(obj any) { r.put(obj, false, true) },
	}
}

func (r *recorder) put(obj any, added, deleted bool) {
	object, ok := obj.(client.Object)
	if !ok {
		return // a tombstone: the deletion itself was missed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.records) < maxRecords {
		r.records = append(r.records, record{at: r.now(), obj: object, added: added, deleted: deleted})
	}
}

// reset forgets what was recorded so far.
func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = nil
}

// all returns what was recorded since the last reset.
func (r *recorder) all() []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records)
}

// first returns when an object of type T was first recorded for which ok is true.
func first[T client.Object](records []record, ok func(record, T) bool) (time.Time, bool) {
	for _, r := range records {
		if obj, is := r.obj.(T); is && ok(r, obj) {
			return r.at, true
		}
	}
	return time.Time{}, false
}
