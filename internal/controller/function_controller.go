// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/internal/validator"
	"github.com/naeel/sless/internal/webhook/v1alpha1/validation"
)

// Images is the registry work that the Function controller and the cleaning need.
type Images interface {
	Resolve(ctx context.Context, ref string) (digest string, err error)
	Exists(ctx context.Context, ref string) (digest string, ok bool, err error)
	Append(ctx context.Context, req image.AppendRequest) (digest string, err error)
	Labels(ctx context.Context, ref string) (map[string]string, error)
	Tags(ctx context.Context, repository string, limit int) ([]string, error)
	Delete(ctx context.Context, ref string) error
}

// FunctionReconciler takes a Function from its source to running pods.
type FunctionReconciler struct {
	client.Client
	// APIReader reads past the cache, which holds only what sless made.
	APIReader client.Reader
	Config    *config.Config
	Catalogue validation.Catalogue
	Store     objectstore.Store
	Images    Images
	// Review judges code. Without one all code passes.
	Review   Reviewer
	Recorder events.EventRecorder
	Clock    clock.PassiveClock

	*memory
	scaler *autoscaler
	// passTimeout is that of the package when it is 0.
	passTimeout time.Duration
	// starting is held while a build is started.
	starting sync.Mutex
}

var _ reconcile.Reconciler = (*FunctionReconciler)(nil)

// +kubebuilder:rbac:groups=sless.io,resources=functions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=sless.io,resources=functions/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;namespaces,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=delete
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=keda.sh,resources=scaledobjects,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=http.keda.sh,resources=interceptorroutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile makes one pass over a Function.
func (r *FunctionReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	fn := &v1alpha1.Function{}
	if err := r.Get(ctx, req.NamespacedName, fn); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !fn.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.delete(ctx, fn)
	}
	s := newFunctionScope(fn, r.Clock.Now())
	err := runPhases(ctx, cmp.Or(r.passTimeout, passTimeout), s,
		r.ensureFinalizer,
		r.observeWorkload,
		r.observeTriggers,
		r.observeScaling,
		r.freezeOrThaw,
		r.validate,
		r.resolveSource,
		r.reviewCode,
		r.ensureDependencies,
		r.ensureImage,
		r.ensureDeployNamespace,
		r.ensurePullSecret,
		r.ensureMirrors,
		r.handReplicasOver,
		r.ensureWorkload,
		r.ensureScaling,
		r.removeOldMirrors,
		r.tellSourceFault,
	)
	if left := r.leaveQueues(ctx, s, err); err == nil {
		err = left
	}
	return r.finish(ctx, s, err)
}

// finish computes the status from the scope, writes it once, tells of transitions, and decides when to look again.
func (r *FunctionReconciler) finish(ctx context.Context, s *functionScope, err error) (ctrl.Result, error) {
	fault := asPhaseError(err)
	base := s.fn.DeepCopy()
	s.fn.Status = computeFunctionStatus(s, fault, r.Config)
	_, settled := plan.CannotWake(s.fn.Status.Conditions, s.now)
	s.lookAgainAfter(settled)
	written, patchErr := patchStatus(ctx, r.Client, base, s.fn, base.Status, s.fn.Status)
	if patchErr != nil {
		return statusNotWritten(patchErr)
	}
	if written {
		r.recordTransition(base, s)
	}
	return resultOf(fault, s.lookAgain)
}

// recordTransition sends one event when the Ready condition changed its status or reason, or when other code was refused.
func (r *FunctionReconciler) recordTransition(before *v1alpha1.Function, s *functionScope) {
	if readyOf(s.fn).Reason != v1alpha1.ReasonCodeRejected {
		recordReady(r.Recorder, s.fn, readyOf(before), readyOf(s.fn))
	}
	if note := newRefusal(before, s.fn); note != "" {
		validator.Refusal{
			Namespace: s.fn.Namespace, Name: s.fn.Name, UID: s.fn.UID, Digest: s.codeDigest(), Note: note,
		}.Tell(r.Recorder)
	}
}

func (r *FunctionReconciler) ensureFinalizer(ctx context.Context, s *functionScope) error {
	_, err := addFinalizer(ctx, r.Client, s.fn, v1alpha1.FinalizerFunction)
	return err
}

const (
	maxEventNote = 1000
	// conflictDelay lets the cache catch up with the change that a pass has missed.
	conflictDelay = 50 * time.Millisecond
	// retryBase and retryMax bound the delay between attempts at a fault of the platform.
	retryBase = 200 * time.Millisecond
	retryMax  = time.Minute
)
