// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/webhook/v1alpha1/validation"
)

// startRun begins the run that is asked for, unless it was begun before or another one goes on.
func (r *FunctionJobReconciler) startRun(ctx context.Context, s *functionJobScope) error {
	step := plan.NextRunStep(s.fj)
	next := step == plan.RunFollow && s.run.Ended && s.fj.Spec.RunID > s.runID
	if step != plan.RunStart && !next {
		return nil
	}
	s.following, s.run, s.job = false, nil, nil
	if adopted, err := r.adoptEarlierRun(ctx, s); err != nil || adopted {
		return err
	}
	if problems := validation.ValidateFunctionJob(s.fj); len(problems) > 0 {
		return stalled(v1alpha1.ConditionComplete, problems[0].Reason, "%s", problems[0].Err.Error())
	}
	adopted, err := r.adoptRun(ctx, s)
	if err != nil || adopted {
		return err
	}
	fn, err := r.runnableFunction(ctx, s)
	if err != nil {
		return err
	}
	if err := r.holdForRun(ctx, s); err != nil {
		return err
	}
	pod, err := r.ensureInputs(ctx, s, fn)
	if err != nil {
		return err
	}
	return r.createRun(ctx, s, fn, pod)
}

// adoptEarlierRun goes on with a run before the one that is asked for, which was begun and could not be noted: the manager
// died, or runID grew in the moment between. No other run begins beside it. It looks past the cache, since the last pass may
// have been a moment ago.
func (r *FunctionJobReconciler) adoptEarlierRun(ctx context.Context, s *functionJobScope) (bool, error) {
	secrets := metadataList("SecretList")
	err := r.APIReader.List(ctx, secrets, client.InNamespace(s.deployNamespace()),
		client.MatchingLabels(resources.RunOwnerLabels(string(s.fj.UID))))
	if err != nil {
		return false, fmt.Errorf("listing what earlier runs were given: %w", err)
	}
	for _, event := range plan.EarlierRuns(s.fj, secrets.Items) {
		s.runID = plan.RunID(&event)
		job, err := r.findRun(ctx, s, s.runID)
		if err != nil {
			return false, err
		}
		run, err := r.observeRun(ctx, s, job)
		if err != nil {
			return false, err
		}
		if !run.Ended {
			s.adopt(job, s.runID, event.CreationTimestamp.Time)
			s.observe(run)
			return true, nil
		}
	}
	return false, nil
}

// adoptRun goes on with a run that a manager began and could not note any more. No pod of a run starts before its event is
// there, which is made after the Job. So an event without a Job belongs to a run whose Job was deleted: the function may
// have been started. A Job without an event has not started it.
func (r *FunctionJobReconciler) adoptRun(ctx context.Context, s *functionJobScope) (bool, error) {
	job, err := r.findRun(ctx, s, s.fj.Spec.RunID)
	if err != nil {
		return false, err
	}
	if job == nil {
		event, err := r.findEvent(ctx, s, s.fj.Spec.RunID)
		if err != nil || event == nil {
			return false, err
		}
		s.adopt(nil, s.fj.Spec.RunID, event.CreationTimestamp.Time)
	} else {
		event := resources.RunEvent(s.fj, job.Annotations[v1alpha1.AnnotationFunctionUID])
		if err := r.createInput(ctx, event); err != nil {
			return false, err
		}
		s.adopt(job, s.fj.Spec.RunID, job.CreationTimestamp.Time)
	}
	run, err := r.observeRun(ctx, s, job)
	if err != nil {
		return false, err
	}
	s.observe(run)
	return true, nil
}

// runnableFunction returns the Function, when its image is proven. It is read past the cache, so that a run never gets
// older code than what was applied before it.
func (r *FunctionJobReconciler) runnableFunction(ctx context.Context, s *functionJobScope) (*v1alpha1.Function, error) {
	fn := &v1alpha1.Function{}
	key := client.ObjectKey{Namespace: s.fj.Namespace, Name: s.fj.Spec.FunctionRef.Name}
	err := r.APIReader.Get(ctx, key, fn)
	switch {
	case apierrors.IsNotFound(err), err == nil && !fn.DeletionTimestamp.IsZero():
		return nil, stalled(v1alpha1.ConditionComplete, v1alpha1.ReasonFunctionNotFound,
			"Function %s does not exist in this namespace", key.Name)
	case err != nil:
		return nil, fmt.Errorf("reading Function %s: %w", key, err)
	}
	fault := plan.Runnable(fn)
	switch {
	case fault == nil:
		return fn, nil
	case fault.User:
		return nil, stalled(v1alpha1.ConditionComplete, fault.Reason, "Function %s is not ready: %s", fn.Name, fault.Message)
	default:
		return nil, waiting(v1alpha1.ConditionComplete, fault.Reason, "Function %s is not ready: %s", fn.Name, fault.Message)
	}
}

// holdForRun adds the finalizer and makes sure that this pass has seen the newest FunctionJob.
func (r *FunctionJobReconciler) holdForRun(ctx context.Context, s *functionJobScope) error {
	added, err := addFinalizer(ctx, r.Client, s.fj, v1alpha1.FinalizerFunctionJob)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errStale
	}
	if added || err != nil {
		return err // the lock of the patch is the proof
	}
	live := &v1alpha1.FunctionJob{}
	err = r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.fj), live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s: %w", klog.KObj(s.fj), err)
	}
	if err != nil || live.ResourceVersion != s.fj.ResourceVersion {
		return errStale
	}
	return nil
}

// ensureInputs makes the run's own copies of what the Function refers to, and returns how its pod is made.
func (r *FunctionJobReconciler) ensureInputs(
	ctx context.Context, s *functionJobScope, fn *v1alpha1.Function,
) (resources.DeploymentOptions, error) {
	mirrors := map[resources.Source]string{}
	for _, reference := range plan.References(fn) {
		data, err := readSource(ctx, r.APIReader, fn.Namespace, reference.Source)
		if err != nil {
			return resources.DeploymentOptions{}, err
		}
		picked, err := reference.Pick(fn.Namespace, data)
		if err != nil {
			return resources.DeploymentOptions{}, unwatched(v1alpha1.ConditionComplete, v1alpha1.ReasonConfigMissing, "%s", err.Error())
		}
		if picked == nil {
			continue
		}
		mirror := resources.RunMirror(s.fj, fn, reference.Source, picked)
		if err := r.createInput(ctx, mirror); err != nil {
			return resources.DeploymentOptions{}, err
		}
		mirrors[reference.Source] = mirror.GetName()
	}
	rt, _ := r.Catalogue.Lookup(fn.Spec.Runtime)
	pod := podOptions(r.Config, rt, mirrors)
	pod.Image, pod.SourceDigest = fn.Status.Image, fn.Status.SourceDigest
	pod.Entrypoint = validation.EntrypointOf(fn, rt)
	return pod, nil
}

// createInput creates an object that no run but this one has. One that exists is the same.
func (r *FunctionJobReconciler) createInput(ctx context.Context, obj client.Object) error {
	err := r.Create(ctx, obj, client.FieldOwner(v1alpha1.FieldOwnerController))
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return runRefused(fmt.Sprintf("%T %s", obj, klog.KObj(obj)), err)
}

// createRun creates the Job, and then the event for which its pod waits. From then on the run counts as begun.
func (r *FunctionJobReconciler) createRun(
	ctx context.Context, s *functionJobScope, fn *v1alpha1.Function, pod resources.DeploymentOptions,
) error {
	job := resources.RunJob(s.fj, fn, pod)
	err := r.Create(ctx, job, client.FieldOwner(v1alpha1.FieldOwnerController))
	if apierrors.IsAlreadyExists(err) {
		return errStale // the Job exists, which the cache does not show yet
	}
	if err != nil {
		return runRefused("Job "+klog.KObj(job).String(), err)
	}
	if err := r.createInput(ctx, resources.RunEvent(s.fj, string(fn.UID))); err != nil {
		return err
	}
	s.begin(job, s.fj.Spec.RunID, s.now)
	s.observe(plan.ObserveRun(job, nil, s.now))
	return nil
}

// runRefused tells what the API server refuses because of the spec, or of a quota, from other faults.
func runRefused(what string, err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	switch {
	case ok && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
		return stalled(v1alpha1.ConditionComplete, v1alpha1.ReasonInvalidSpec, "what the run needs is refused: %s", status.Status().Message)
	case ok && apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return platform(v1alpha1.ConditionComplete, v1alpha1.ReasonQuotaExceeded, status.Status().Message, err)
	}
	return fmt.Errorf("creating %s: %w", what, err)
}
