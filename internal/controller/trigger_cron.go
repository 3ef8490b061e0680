// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/naming"
)

// ensureCronJob makes the CronJob of a cron Trigger, and the copy of its event. It never fires while the Trigger is off or
// has no Function. The deploy namespace is the Function controller's to make: before that there is nobody to call.
func (r *TriggerReconciler) ensureCronJob(ctx context.Context, s *triggerScope) error {
	spec := s.trigger.Spec.Cron
	if s.trigger.Spec.Type != v1alpha1.TriggerTypeCron {
		return nil
	}
	ready, err := r.deployNamespaceReady(ctx, s.trigger.Namespace)
	if err != nil {
		return err
	}
	if !ready {
		if s.fn == nil {
			return nil
		}
		return waiting(v1alpha1.ConditionReady, v1alpha1.ReasonPending,
			"Function %s has not been deployed yet: %s", s.fn.Name, readyOf(s.fn).Reason)
	}
	schedule, err := plan.ParseSchedule(spec)
	if err != nil {
		return stalled(v1alpha1.ConditionReady, v1alpha1.ReasonScheduleInvalid, "%s", err.Error())
	}
	existing, err := r.findCronJob(ctx, s.trigger)
	if err != nil {
		return err
	}
	suspend := !plan.Enabled(s.trigger) || s.fn == nil
	validity := schedule.ValiditySince(existing, spec, suspend, s.now)
	if err := r.ensureEvent(ctx, s.trigger); err != nil {
		return err
	}
	wanted := resources.CronJob(s.trigger, resources.CronOptions{
		GatewayURL:              r.gatewayURL(),
		BuilderImage:            r.Config.Builds.BuilderImage,
		ImagePullSecret:         pullSecretName(r.Config),
		Suspend:                 suspend,
		TimeZone:                plan.TimeZoneOf(spec),
		StartingDeadlineSeconds: validity.Deadline,
		ScheduleSince:           validity.Since,
		TimeoutSeconds:          timeoutOf(s.fn),
		StartupSeconds:          r.Config.Scaling.StartupTimeoutSeconds,
	})
	if err := apply(ctx, r.Client, wanted); err != nil {
		return triggerFault(err, "CronJob")
	}
	since := s.now
	if existing != nil {
		since = existing.CreationTimestamp.Time
		if last := existing.Status.LastScheduleTime; last != nil {
			s.lastTick, since = last.Time, last.Time
		}
	}
	if !suspend {
		s.nextTick = nextTick(schedule, s.now, since, s.lastTick)
	}
	return nil
}

// nextTick returns the tick to show as the next one. One that has just come stays, until the CronJob tells that it fired or
// a moment has passed: so that the last and the next time are one write.
func nextTick(schedule plan.Schedule, now, since, last time.Time) time.Time {
	next := schedule.Next(now.Add(-tickDelay), since)
	if !next.After(last) {
		return schedule.Next(last, last)
	}
	return next
}

// gatewayURL is where calls wake the function up when it sleeps: the gateway's public port.
func (r *TriggerReconciler) gatewayURL() string {
	gateway := r.Config.Gateway
	host := gateway.ServiceName + "." + gateway.Namespace + ".svc"
	return "http://" + net.JoinHostPort(host, strconv.Itoa(int(gateway.ServicePort)))
}

func timeoutOf(fn *v1alpha1.Function) int32 {
	if fn == nil || fn.Spec.TimeoutSeconds <= 0 {
		return v1alpha1.DefaultTimeoutSeconds
	}
	return fn.Spec.TimeoutSeconds
}

// deployNamespaceReady tells whether the deploy namespace is there, and is for the functions of this user namespace.
func (r *TriggerReconciler) deployNamespaceReady(ctx context.Context, userNamespace string) (bool, error) {
	namespace := &corev1.Namespace{}
	// The cache holds only namespaces that sless made.
	err := r.Get(ctx, client.ObjectKey{Name: naming.DeployNamespace(userNamespace)}, namespace)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the deploy namespace: %w", err)
	}
	return namespace.DeletionTimestamp.IsZero() &&
		namespace.Annotations[resources.UserNamespaceAnnotation] == userNamespace, nil
}

// findCronJob returns the CronJob of the Trigger, or nil. One of the same name that belongs to somebody else is a fault.
func (r *TriggerReconciler) findCronJob(ctx context.Context, t *v1alpha1.Trigger) (*batchv1.CronJob, error) {
	key := client.ObjectKey{Namespace: naming.DeployNamespace(t.Namespace), Name: naming.CronJob(t.Name)}
	existing := &batchv1.CronJob{}
	found, err := find(ctx, r.Client, r.APIReader, key, existing)
	if err != nil || !found {
		return nil, err
	}
	if !owns(existing, string(t.UID)) {
		return nil, nameConflict("CronJob", key)
	}
	return existing, nil
}

func nameConflict(kind string, key client.ObjectKey) error {
	return unwatched(v1alpha1.ConditionReady, v1alpha1.ReasonNameConflict,
		"%s %s exists and does not belong to this Trigger; delete it or rename the Trigger", kind, key)
}

// ensureEvent makes the ConfigMap with the event, or removes it when there is no event any more.
func (r *TriggerReconciler) ensureEvent(ctx context.Context, t *v1alpha1.Trigger) error {
	key := client.ObjectKey{Namespace: naming.DeployNamespace(t.Namespace), Name: naming.CronJob(t.Name)}
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	wanted := resources.CronEvent(t)
	if wanted == nil {
		// The cache has it if there is one. Most Triggers have none, and need not ask for it at every tick.
		err := r.Get(ctx, key, existing)
		if err != nil || !owns(existing, string(t.UID)) {
			return client.IgnoreNotFound(err)
		}
		return client.IgnoreNotFound(r.Delete(ctx, existing))
	}
	found, err := find(ctx, r.Client, r.APIReader, key, existing)
	if err != nil {
		return err
	}
	if found && !owns(existing, string(t.UID)) {
		return nameConflict("ConfigMap", key)
	}
	return apply(ctx, r.Client, wanted)
}

// suspendCronJob stops the CronJob of a Trigger whose spec says nothing that one could be made from.
func (r *TriggerReconciler) suspendCronJob(ctx context.Context, s *triggerScope) error {
	existing, err := r.findCronJob(ctx, s.trigger)
	if err != nil || existing == nil || ptr.Deref(existing.Spec.Suspend, false) {
		return err
	}
	base := existing.DeepCopy()
	existing.Spec.Suspend = new(true)
	err = r.Patch(ctx, existing, client.MergeFrom(base), client.FieldOwner(v1alpha1.FieldOwnerController))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("suspending the CronJob: %w", err)
	}
	return nil
}

// observeRuns reads how the last run ended.
func (r *TriggerReconciler) observeRuns(ctx context.Context, s *triggerScope) error {
	if s.trigger.Spec.Type != v1alpha1.TriggerTypeCron {
		return nil
	}
	of := []client.ListOption{
		client.InNamespace(naming.DeployNamespace(s.trigger.Namespace)),
		client.MatchingLabels(resources.CronRunLabels(s.trigger)),
	}
	jobs, pods := &batchv1.JobList{}, &corev1.PodList{}
	if err := r.List(ctx, jobs, of...); err != nil {
		return fmt.Errorf("listing the runs: %w", err)
	}
	for _, reader := range []client.Reader{r.Client, r.APIReader} {
		if err := reader.List(ctx, pods, of...); err != nil {
			return fmt.Errorf("listing the pods of the runs: %w", err)
		}
		// No watch of pods would bring what the call said later.
		if s.run = plan.LastCronRun(jobs.Items, pods.Items); s.run == nil || !s.run.Unseen {
			return nil
		}
	}
	return nil
}

// triggerFault tells what the API server refuses because of the Trigger's spec from faults of the platform.
func triggerFault(err error, kind string) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if ok && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) {
		return stalled(v1alpha1.ConditionReady, v1alpha1.ReasonInvalidSpec,
			"the %s of this spec is refused: %s", kind, status.Status().Message)
	}
	return err
}
