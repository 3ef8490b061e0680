// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/webhook/v1alpha1/validation"
)

// tickDelay is how long after a tick the next one is written. By then the CronJob has told of the last one, so that both
// are one write.
const tickDelay = time.Second

// TriggerReconciler lets a Trigger call its Function: by a CronJob, or by a host name that leads to the gateway. It never
// touches what runs the Function.
type TriggerReconciler struct {
	client.Client
	// APIReader reads past the cache, which holds only what sless made.
	APIReader client.Reader
	Config    *config.Config
	Recorder  events.EventRecorder
	Clock     clock.PassiveClock
}

var _ reconcile.Reconciler = (*TriggerReconciler)(nil)

// +kubebuilder:rbac:groups=sless.io,resources=triggers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=sless.io,resources=triggers/status,verbs=patch
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch;create;patch;delete

// triggerScope holds everything that one pass over a Trigger has read and decided.
type triggerScope struct {
	trigger *v1alpha1.Trigger
	now     time.Time

	// fn is nil when the Function does not exist, or is being deleted.
	fn *v1alpha1.Function
	// host is what the gateway serves for the Trigger, and unrouted says why no call comes in by it, if that is known.
	host     string
	unrouted *plan.Fault
	// lastTick is when the CronJob fired last, and nextTick when it fires next. Both may be zero.
	lastTick, nextTick time.Time
	// run is the outcome of the last run that ended, if one is known.
	run *plan.CronRun
}

// Reconcile makes one pass over a Trigger.
func (r *TriggerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	trigger := &v1alpha1.Trigger{}
	if err := r.Get(ctx, req.NamespacedName, trigger); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !trigger.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.delete(ctx, trigger)
	}
	s := &triggerScope{trigger: trigger, now: r.Clock.Now()}
	err := runPhases(ctx, passTimeout, s,
		r.ensureFinalizer,
		r.readFunction,
		r.validate,
		r.ensureHost,
		r.ensureCronJob,
		r.observeRuns,
	)
	return r.finish(ctx, s, err)
}

// finish computes the status from the scope, writes it once, tells of what changed, and decides when to look again.
func (r *TriggerReconciler) finish(ctx context.Context, s *triggerScope, err error) (ctrl.Result, error) {
	fault := asPhaseError(err)
	base := s.trigger.DeepCopy()
	s.trigger.Status = computeTriggerStatus(s, fault, r.Config.Gateway)
	written, patchErr := patchStatus(ctx, r.Client, base, s.trigger, base.Status, s.trigger.Status)
	if patchErr != nil {
		return statusNotWritten(patchErr)
	}
	if written {
		r.recordTransitions(base, s.trigger)
	}
	var nextLook time.Duration
	if !s.nextTick.IsZero() {
		nextLook = s.nextTick.Sub(s.now) + tickDelay
	}
	return resultOf(fault, nextLook)
}

// recordTransitions sends an event when the Ready condition changed, and one for each run that failed.
func (r *TriggerReconciler) recordTransitions(before, after *v1alpha1.Trigger) {
	was, is := triggerCondition(before, v1alpha1.ConditionReady), triggerCondition(after, v1alpha1.ConditionReady)
	recordReady(r.Recorder, after, was, is)
	was = triggerCondition(before, v1alpha1.ConditionLastRunSucceeded)
	is = triggerCondition(after, v1alpha1.ConditionLastRunSucceeded)
	if is.Status == metav1.ConditionFalse && is.Message != was.Message {
		r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, is.Reason, "Run", "%s", truncate(is.Message, maxEventNote))
	}
}

func triggerCondition(t *v1alpha1.Trigger, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(t.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// ensureFinalizer comes before the first object of the Trigger. One that only names the URL of its Function has none.
func (r *TriggerReconciler) ensureFinalizer(ctx context.Context, s *triggerScope) error {
	host, _ := triggerHost(s.trigger, r.Config.Gateway)
	if s.trigger.Spec.Type != v1alpha1.TriggerTypeCron && host == "" {
		return nil
	}
	_, err := addFinalizer(ctx, r.Client, s.trigger, v1alpha1.FinalizerTrigger)
	return err
}

func (r *TriggerReconciler) readFunction(ctx context.Context, s *triggerScope) error {
	fn := &v1alpha1.Function{}
	err := r.Get(ctx, types.NamespacedName{Namespace: s.trigger.Namespace, Name: s.trigger.Spec.FunctionRef.Name}, fn)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the Function: %w", err)
	case fn.DeletionTimestamp.IsZero():
		s.fn = fn
	}
	return nil
}

// validate judges the spec by the rules of the admission webhook, for objects that came in without it. A Trigger that does
// not pass calls nothing.
func (r *TriggerReconciler) validate(ctx context.Context, s *triggerScope) error {
	problems := validation.ValidateTrigger(s.trigger)
	if len(problems) == 0 {
		return nil
	}
	if err := r.deleteHostRoutes(ctx, s.trigger); err != nil {
		return err
	}
	if err := r.suspendCronJob(ctx, s); err != nil {
		return err
	}
	return stalled(v1alpha1.ConditionReady, problems[0].Reason, "%s", problems[0].Err.Error())
}
