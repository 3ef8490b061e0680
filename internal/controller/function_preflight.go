// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/naming"
)

// ensureProven lets the Deployment of a Function without replicas take a new version over only after the version's handler
// was loaded in a pod of its own. Until then, and when it cannot be loaded, it returns an error that says so, and the old
// version stays.
func (r *FunctionReconciler) ensureProven(ctx context.Context, s *functionScope, options resources.DeploymentOptions) error {
	jobs := &batchv1.JobList{}
	if err := r.List(ctx, jobs, client.InNamespace(s.deployNamespace()), preflightsOf(s.fn)); err != nil {
		return fmt.Errorf("listing the preflights: %w", err)
	}
	job := jobNamed(jobs.Items, naming.PreflightJob(s.revision))
	pods := &corev1.PodList{}
	if job != nil {
		if err := r.List(ctx, pods, client.InNamespace(job.Namespace),
			client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
			return fmt.Errorf("listing the pods of the preflight: %w", err)
		}
	}
	refused, err := r.refusal(ctx, job, pods.Items)
	if err != nil {
		return err
	}
	step := plan.NextPreflight(plan.PreflightState{
		Replicas: options.Replicas, Deployment: s.deployment, Revision: s.revision, Job: job, Pods: pods.Items,
		Refused: refused, Attempts: r.known.attempts(s.revision), Now: s.now,
		RetryAsked: r.retryAsked(s.fn, job),
	})
	if err := r.removeOldPreflights(ctx, s, jobs.Items); err != nil {
		return err
	}
	if step.Action == plan.PreflightPass {
		return nil
	}
	if err := r.scaleOldVersion(ctx, s, options.Replicas); err != nil {
		return err
	}
	return r.takePreflightStep(ctx, s, options, job, step)
}

// preflightsOf selects the preflights of a Function.
func preflightsOf(fn *v1alpha1.Function) client.MatchingLabels {
	return client.MatchingLabels(resources.OwnerLabels(fn, resources.ComponentPreflight))
}

// removeOldPreflights deletes the preflights that nobody asks about any more. That of the wanted version stays until the
// Deployment has taken the version over, or for as long as it is known not to load.
func (r *FunctionReconciler) removeOldPreflights(ctx context.Context, s *functionScope, jobs []batchv1.Job) error {
	for i := range jobs {
		job := &jobs[i]
		revision := job.Labels[v1alpha1.LabelRevision]
		if revision == s.revision && wantedRevision(s.deployment) != s.revision || !job.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.removeJob(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

// scaleOldVersion gives the version that stays the wanted number of replicas: a user who asks for none gets none, whatever
// becomes of the new version.
func (r *FunctionReconciler) scaleOldVersion(ctx context.Context, s *functionScope, wanted *int32) error {
	if s.deployment == nil || wanted == nil || ptr.Deref(s.deployment.Spec.Replicas, 1) == *wanted {
		return nil
	}
	scaled := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.deployment.Namespace, Name: s.deployment.Name}}
	patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, *wanted))
	if err := r.Patch(ctx, scaled, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return fmt.Errorf("scaling the old version: %w", err)
	}
	return nil
}

func (r *FunctionReconciler) takePreflightStep(ctx context.Context, s *functionScope, options resources.DeploymentOptions,
	job *batchv1.Job, step plan.PreflightStep,
) error {
	under := &phaseError{
		kind: kindWaiting, condition: v1alpha1.ConditionAvailable, reason: v1alpha1.ReasonPreflight, after: step.After,
		message: "no replica runs, so the new version is tried in a pod of its own before it takes the old one's place",
	}
	switch step.Action {
	case plan.PreflightCreate:
		wanted := resources.PreflightJob(s.fn, options, s.revision)
		err := r.Create(ctx, wanted, client.FieldOwner(v1alpha1.FieldOwnerController))
		if client.IgnoreAlreadyExists(err) != nil {
			return specFault(fmt.Errorf("creating the preflight: %w", err))
		}
	case plan.PreflightDelete:
		r.noteAsked(s.fn, job)
		if err := r.removeJob(ctx, job); err != nil {
			return err
		}
		if step.Fault != nil {
			r.known.attempted(s.revision)
		}
	case plan.PreflightWait, plan.PreflightHold, plan.PreflightFailed, plan.PreflightPass:
		if step.Fault != nil {
			return preflightFault(step)
		}
	}
	under.after = cmp.Or(under.after, recheck)
	return under
}

// preflightFault tells the user's faults from those that Kubernetes or sless tries again.
func preflightFault(step plan.PreflightStep) error {
	if step.Action == plan.PreflightFailed || step.Fault.User {
		return stalled(v1alpha1.ConditionAvailable, step.Fault.Reason, "%s", step.Fault.Message)
	}
	return &phaseError{
		kind: kindPlatform, condition: v1alpha1.ConditionAvailable, reason: step.Fault.Reason, message: step.Fault.Message,
		after: cmp.Or(step.After, recheck),
	}
}
