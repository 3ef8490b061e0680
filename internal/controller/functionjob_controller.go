// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/webhook/v1alpha1/validation"
)

// FunctionJobReconciler runs a Function once for each runID of a FunctionJob, as a Job in the deploy namespace.
type FunctionJobReconciler struct {
	client.Client
	// APIReader reads past the cache: what a run is begun with must not be a moment old.
	APIReader client.Reader
	Config    *config.Config
	Catalogue validation.Catalogue
	Recorder  events.EventRecorder
	Clock     clock.PassiveClock
}

var _ reconcile.Reconciler = (*FunctionJobReconciler)(nil)

// +kubebuilder:rbac:groups=sless.io,resources=functions,verbs=get;list;watch
// +kubebuilder:rbac:groups=sless.io,resources=functionjobs,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=sless.io,resources=functionjobs/status,verbs=patch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile makes one pass over a FunctionJob.
func (r *FunctionJobReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	fj := &v1alpha1.FunctionJob{}
	if err := r.Get(ctx, req.NamespacedName, fj); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !fj.DeletionTimestamp.IsZero() {
		return r.delete(ctx, fj)
	}
	s := newFunctionJobScope(fj, r.Clock.Now())
	err := runPhases(ctx, passTimeout, s, r.followRun, r.startRun)
	return r.finish(ctx, s, err)
}

// finish computes the status from the scope, writes it once, tells what happened, tidies up, and decides when to look
// again.
func (r *FunctionJobReconciler) finish(ctx context.Context, s *functionJobScope, err error) (ctrl.Result, error) {
	if errors.Is(err, errStale) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	fault := asPhaseError(err)
	base := s.fj.DeepCopy()
	s.fj.Status = computeFunctionJobStatus(s, fault)
	written, patchErr := replaceStatus(ctx, r.Client, s.fj, base.Status, s.fj.Status)
	if patchErr != nil {
		return statusNotWritten(patchErr)
	}
	if written {
		for _, e := range s.events {
			r.Recorder.Eventf(s.fj, nil, e.kind, e.reason, "Run", "%s", truncate(e.note, maxEventNote))
		}
	}
	if s.fj.Status.StartTime != nil {
		if err := r.removeEarlierRuns(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
	}
	if plan.NextRunStep(s.fj) == plan.RunDone {
		return r.afterRun(ctx, s)
	}
	if base.Status.StartTime != nil && s.fj.Status.StartTime == nil {
		// The run before has ended, and the next one cannot begin yet.
		if err := r.removeInputs(ctx, s, base.Status.RunID); err != nil {
			return ctrl.Result{}, err
		}
	}
	var nextLook time.Duration
	if s.run != nil {
		nextLook = s.run.LookAgain
	}
	return resultOf(fault, nextLook)
}

// afterRun removes what only a run needs, and deletes a FunctionJob whose time is over.
func (r *FunctionJobReconciler) afterRun(ctx context.Context, s *functionJobScope) (ctrl.Result, error) {
	if err := r.removeInputs(ctx, s, s.fj.Status.RunID); err != nil {
		return ctrl.Result{}, err
	}
	left, ok := timeLeft(s.fj, s.now)
	if !ok || left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	// A larger runID that is not in the cache yet must not be deleted unseen.
	same := client.Preconditions{UID: &s.fj.UID, ResourceVersion: &s.fj.ResourceVersion}
	err := r.Delete(ctx, s.fj, same)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("deleting %s after its time: %w", klog.KObj(s.fj), err)
	}
	return ctrl.Result{}, nil
}

// timeLeft returns how long a finished FunctionJob is still kept, and false when that is for ever.
func timeLeft(fj *v1alpha1.FunctionJob, now time.Time) (time.Duration, bool) {
	if fj.Spec.TTLSecondsAfterFinished == nil || fj.Status.CompletionTime == nil {
		return 0, false
	}
	ttl := time.Duration(*fj.Spec.TTLSecondsAfterFinished) * time.Second
	// The manager that saw the end may have had another clock. No more than the whole time is waited for at once.
	return min(fj.Status.CompletionTime.Add(ttl).Sub(now), ttl), true
}
