// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/naming"
)

// followRun looks how the run goes that the status says was begun.
func (r *FunctionJobReconciler) followRun(ctx context.Context, s *functionJobScope) error {
	if plan.NextRunStep(s.fj) != plan.RunFollow {
		return nil
	}
	s.following = true
	s.runID, s.began = s.fj.Status.RunID, s.fj.Status.StartTime.Time
	job, err := r.findRun(ctx, s, s.runID)
	if err != nil {
		return err
	}
	s.job = job
	run, err := r.observeRun(ctx, s, job)
	if err != nil {
		return err
	}
	if !run.Ended || job == nil {
		if run, err = r.stopWithFunction(ctx, s, run); err != nil {
			return err
		}
	}
	s.observe(run)
	return nil
}

// findRun returns the Job of a run of this FunctionJob, or nil.
func (r *FunctionJobReconciler) findRun(ctx context.Context, s *functionJobScope, runID int64) (*batchv1.Job, error) {
	key := client.ObjectKey{Namespace: s.deployNamespace(), Name: naming.Run(s.fj.Name, string(s.fj.UID), runID)}
	job := &batchv1.Job{}
	err := r.Get(ctx, key, job)
	if apierrors.IsNotFound(err) {
		// The cache may not hold yet what the last pass has made.
		err = r.APIReader.Get(ctx, key, job)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Job %s: %w", key, err)
	case !owns(job, string(s.fj.UID)):
		return nil, unwatched(v1alpha1.ConditionComplete, v1alpha1.ReasonNameConflict,
			"Job %s exists and was not made for this FunctionJob; delete it", key)
	}
	return job, nil
}

func (r *FunctionJobReconciler) observeRun(ctx context.Context, s *functionJobScope, job *batchv1.Job) (plan.Run, error) {
	pods, run := &corev1.PodList{}, plan.Run{}
	for _, reader := range []client.Reader{r.Client, r.APIReader} {
		err := reader.List(ctx, pods, client.InNamespace(s.deployNamespace()),
			client.MatchingLabels(resources.RunLabelsOf(string(s.fj.UID), s.runID)))
		if err != nil {
			return plan.Run{}, fmt.Errorf("listing the pods of run %d: %w", s.runID, err)
		}
		// The end is written down once, and the pod alone has the result and the cause.
		if run = plan.ObserveRun(job, pods.Items, s.now); !run.Unseen {
			break
		}
	}
	live := plan.LivePods(pods.Items)
	run.LookAgain = max(run.LookAgain, plan.LookForRefusal(job, live, s.now))
	if run.Ended || run.LookAgain > 0 || !plan.MayBeRefused(job, live) {
		return run, nil
	}
	refused, err := refusal(ctx, r.APIReader, job, pods.Items)
	if err != nil {
		return run, err
	}
	if refused != nil {
		run.Reason, run.Message = refused.Reason, refused.Message
	} else {
		run.LookAgain = plan.PollRefusal(job, s.now)
	}
	return run, nil
}

// stopWithFunction ends a run whose Function was deleted: nobody expects its code to go on. It tells so also in the passes
// after the one that has deleted the Job, until the pod has ended.
func (r *FunctionJobReconciler) stopWithFunction(ctx context.Context, s *functionJobScope, run plan.Run) (plan.Run, error) {
	if run.Succeeded {
		return run, nil
	}
	name, gone, err := r.functionGone(ctx, s)
	if err != nil || !gone {
		return run, err
	}
	if s.job != nil {
		err := r.Delete(ctx, s.job, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return run, fmt.Errorf("stopping run %d: %w", s.runID, err)
		}
		s.job = nil
		if run, err = r.observeRun(ctx, s, nil); err != nil || run.Succeeded {
			return run, err
		}
	}
	run.Reason = v1alpha1.ReasonFunctionNotFound
	run.Message = fmt.Sprintf("Function %s was deleted while the run went on, so the run was stopped", name)
	if !run.Ended {
		run.Message += "; its pod has not ended yet"
	}
	return run, nil
}

// functionGone tells whether the Function of a run was deleted, and its name. The Job tells which one that is, or the event
// when the Job is gone.
func (r *FunctionJobReconciler) functionGone(ctx context.Context, s *functionJobScope) (name string, gone bool, err error) {
	var trace metav1.Object = s.job
	if s.job == nil {
		event, err := r.findEvent(ctx, s, s.runID)
		if err != nil || event == nil {
			return "", false, err
		}
		trace = event
	}
	key := client.ObjectKey{Namespace: s.fj.Namespace, Name: trace.GetLabels()[v1alpha1.LabelFunction]}
	for _, reader := range []client.Reader{r.Client, r.APIReader} {
		fn := &v1alpha1.Function{}
		err := reader.Get(ctx, key, fn)
		if client.IgnoreNotFound(err) != nil {
			return "", false, fmt.Errorf("reading Function %s: %w", key, err)
		}
		if err == nil && fn.DeletionTimestamp.IsZero() && string(fn.UID) == trace.GetAnnotations()[v1alpha1.AnnotationFunctionUID] {
			return "", false, nil
		}
	}
	return key.Name, true, nil
}

// findEvent returns the metadata of the event of a run of this FunctionJob, or nil.
func (r *FunctionJobReconciler) findEvent(
	ctx context.Context, s *functionJobScope, runID int64,
) (*metav1.PartialObjectMetadata, error) {
	key := client.ObjectKey{Namespace: s.deployNamespace(), Name: resources.RunEventName(s.fj, runID)}
	event := &metav1.PartialObjectMetadata{}
	event.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	found, err := find(ctx, r.Client, r.APIReader, key, event)
	if err != nil || !found || !owns(event, string(s.fj.UID)) {
		return nil, err
	}
	return event, nil
}
