// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
)

// gitCode returns the code of a git source: what the last fetch stored. The repository is asked in Jobs, whose end a watch
// tells of. A fault with the repository does not take known code away: it is told of at the end of the pass.
func (r *FunctionReconciler) gitCode(ctx context.Context, s *functionScope) (*codeArchive, error) {
	credentials, fault := r.gitCredentials(ctx, s)
	if fault != nil {
		known := knownGitCode(s)
		if _, ok := errors.AsType[*phaseError](fault); !ok || known.Digest == "" {
			return nil, fault
		}
		s.sourceFault = fault
		code, err := r.useGitCode(ctx, s, known)
		if errors.Is(err, errCodeLost) {
			return nil, fault
		}
		return code, err
	}
	state, err := r.gitState(ctx, s, credentials)
	if err != nil {
		return nil, err
	}
	step := plan.NextGitStep(state)
	code, err := r.useGitCode(ctx, s, step.Code)
	if errors.Is(err, errCodeLost) {
		state.Lost = true
		step, err = plan.NextGitStep(state), nil
	}
	if err != nil {
		return nil, err
	}
	for i := range state.Jobs {
		s.keepInQueue(state.Jobs[i].Name) // what is of no use, the step removes
	}
	if err := r.takeGitStep(ctx, s, step, credentials); err != nil {
		return nil, err
	}
	return code, judgeGitStep(s, step, code)
}

// judgeGitStep tells what a step means for the source.
func judgeGitStep(s *functionScope, step plan.GitStep, code *codeArchive) error {
	s.lookAgainAfter(step.After)
	fault := gitFault(step)
	switch {
	case code == nil && fault != nil:
		return fault
	case code == nil:
		return &phaseError{
			kind: kindWaiting, condition: v1alpha1.ConditionSourceReady, reason: v1alpha1.ReasonFetching,
			message: step.Waiting, after: cmp.Or(step.After, recheck),
		}
	case fault != nil && fault.kind == kindStalled:
		s.sourceFault = fault
	case fault != nil:
		// The code that is known goes on being right as far as anybody can tell.
		s.sourceNote = outcome{reason: fault.reason, message: "; looking for newer code failed: " + fault.message}
	}
	return nil
}

// gitFault is the fault of the last fetch as it ends a pass.
func gitFault(step plan.GitStep) *phaseError {
	if step.Fault == nil {
		return nil
	}
	fault := &phaseError{
		kind: kindPlatform, condition: v1alpha1.ConditionSourceReady, reason: step.Fault.Reason,
		message: step.Fault.Message + "; it is tried again in a while", after: cmp.Or(step.After, recheck),
	}
	if step.Fault.User {
		fault.kind, fault.message, fault.after = kindStalled, step.Fault.Message, step.After
	}
	return fault
}

// gitSourceKey is a hash of what is fetched.
func gitSourceKey(source *v1alpha1.GitSource) string {
	return naming.Key(source.URL, source.Revision, source.Path)
}

// knownGitCode is what the status remembers for the source that the spec names.
func knownGitCode(s *functionScope) plan.GitCode {
	status := s.fn.Status
	if status.ObservedSource != gitSourceKey(s.fn.Spec.Source.Git) {
		return plan.GitCode{}
	}
	return plan.GitCode{Revision: status.SourceRevision, Digest: status.SourceDigest}
}

// errCodeLost says that stored code is gone or damaged.
var errCodeLost = errors.New("the stored code is lost")

// useGitCode reads the named files of stored code. It returns errCodeLost when the code must be fetched again.
func (r *FunctionReconciler) useGitCode(ctx context.Context, s *functionScope, known plan.GitCode) (*codeArchive, error) {
	if known.Digest == "" {
		return nil, nil
	}
	if err := r.claims.claim(ctx, s.now, objectClaim(objectstore.CodeKey(s.fn.Namespace, known.Digest))); err != nil {
		return nil, err
	}
	code, err := r.storedCode(ctx, s, known.Digest)
	_, damaged := errors.AsType[*archive.DigestError](err)
	if damaged || errors.Is(err, objectstore.ErrNotFound) {
		return nil, errCodeLost
	}
	if err != nil {
		return nil, storedCodeFault(err)
	}
	s.sourceRevision, s.observedSource = known.Revision, gitSourceKey(s.fn.Spec.Source.Git)
	return code, nil
}

// gitCredentials reads the Secret of the source, and picks what a fetch needs of it.
func (r *FunctionReconciler) gitCredentials(ctx context.Context, s *functionScope) (map[string][]byte, error) {
	source := s.fn.Spec.Source.Git
	if source.SecretName == "" {
		if plan.IsSSH(source.URL) {
			return nil, stalled(v1alpha1.ConditionSourceReady, v1alpha1.ReasonGitSecretInvalid,
				"a repository by SSH needs spec.source.git.secretName: a Secret with the keys identity and known_hosts")
		}
		return nil, nil
	}
	data, err := r.readSource(ctx, s.fn.Namespace, resources.Source{Kind: resources.SourceSecret, Name: source.SecretName})
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, stalled(v1alpha1.ConditionSourceReady, v1alpha1.ReasonConfigMissing,
			"Secret %s, which spec.source.git.secretName names, does not exist in namespace %s", source.SecretName, s.fn.Namespace)
	}
	picked, err := plan.GitCredentials(source.URL, data)
	if err != nil {
		return nil, stalled(v1alpha1.ConditionSourceReady, v1alpha1.ReasonGitSecretInvalid,
			"Secret %s, which spec.source.git.secretName names, %s", source.SecretName, err.Error())
	}
	return picked, nil
}

// gitInputs is a hash of the credentials that differs from Function to Function.
func gitInputs(fn *v1alpha1.Function, credentials map[string][]byte) string {
	parts := []string{string(fn.UID)}
	for _, key := range slices.Sorted(maps.Keys(credentials)) {
		parts = append(parts, key, string(credentials[key]))
	}
	return naming.Key(parts...)
}

func (r *FunctionReconciler) gitState(
	ctx context.Context, s *functionScope, credentials map[string][]byte,
) (plan.GitState, error) {
	source := s.fn.Spec.Source.Git
	state := plan.GitState{
		Namespace: s.fn.Namespace,
		Source:    gitSourceKey(source), Inputs: gitInputs(s.fn, credentials),
		RetryAsked: s.fn.Annotations[v1alpha1.AnnotationReconcileAt], Pinned: plan.IsWholeCommit(source.Revision),
		Known: knownGitCode(s), MaxConcurrent: r.Config.Git.MaxConcurrent, Interval: r.gitInterval(source), Now: s.now,
	}
	all, pods := &batchv1.JobList{}, &corev1.PodList{}
	namespace, fetches := client.InNamespace(r.Config.Builds.Namespace), resources.OwnerLabels(s.fn, resources.ComponentGit)
	if err := r.List(ctx, all, namespace, client.MatchingLabels(resources.ComponentLabels(resources.ComponentGit))); err != nil {
		return state, fmt.Errorf("listing the fetches: %w", err)
	}
	state.AllJobs = all.Items
	for i := range all.Items {
		if job := &all.Items[i]; owns(job, string(s.fn.UID)) {
			state.Jobs = append(state.Jobs, *job)
		}
	}
	if len(state.Jobs) == 0 {
		return state, nil
	}
	if err := r.List(ctx, pods, namespace, client.MatchingLabels(fetches)); err != nil {
		return state, fmt.Errorf("listing the pods of the fetches: %w", err)
	}
	state.Pods = pods.Items
	if pending := state.PendingFetch(); pending != nil {
		var err error
		if state.Refused, err = r.refusal(ctx, pending, nil); err != nil {
			return state, err
		}
	}
	return state, nil
}

// gitInterval is the time between two looks at a repository, 0 for never.
func (r *FunctionReconciler) gitInterval(source *v1alpha1.GitSource) time.Duration {
	if source.IntervalSeconds != nil {
		return time.Duration(*source.IntervalSeconds) * time.Second
	}
	if r.Config.Git.Interval == nil {
		return 0
	}
	return r.Config.Git.Interval.Duration
}

// takeGitStep starts and removes Jobs.
func (r *FunctionReconciler) takeGitStep(
	ctx context.Context, s *functionScope, step plan.GitStep, credentials map[string][]byte,
) error {
	job := step.Start
	if step.Create != nil {
		job = resources.GitJob(s.fn, r.gitOptions(s, *step.Create, credentials))
		s.keepInQueue(job.Name)
		// A cache that lags behind leads here twice; the name is the same then.
		err := r.Create(ctx, job, client.FieldOwner(v1alpha1.FieldOwnerController))
		if client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating the fetch: %w", err)
		}
		if err != nil || step.Create.Queued {
			job = nil
		}
	}
	if job != nil && ptr.Deref(job.Spec.Suspend, false) {
		if err := r.startGitJob(ctx, job, credentials); err != nil {
			return err
		}
	}
	return r.removeGitJobs(ctx, step.Remove)
}

// removeFetches removes what is left of an earlier source.
func (r *FunctionReconciler) removeFetches(ctx context.Context, s *functionScope) error {
	jobs := &batchv1.JobList{}
	if err := r.List(ctx, jobs, client.InNamespace(r.Config.Builds.Namespace),
		client.MatchingLabels(resources.OwnerLabels(s.fn, resources.ComponentGit))); err != nil {
		return fmt.Errorf("listing the fetches: %w", err)
	}
	names := make([]string, 0, len(jobs.Items))
	for i := range jobs.Items {
		names = append(names, jobs.Items[i].Name)
	}
	return r.removeGitJobs(ctx, names)
}

func (r *FunctionReconciler) removeGitJobs(ctx context.Context, names []string) error {
	for _, name := range names {
		useless := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: r.Config.Builds.Namespace, Name: name}}
		err := r.Delete(ctx, useless, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing a fetch: %w", err)
		}
	}
	return nil
}

// startGitJob gives a Job what it waits for and lets it go.
func (r *FunctionReconciler) startGitJob(ctx context.Context, job *batchv1.Job, credentials map[string][]byte) error {
	if len(credentials) > 0 {
		if err := apply(ctx, r.Client, resources.BuildSecret(job, credentials)); err != nil {
			return err
		}
	}
	if r.Config.ObjectStore.CAFile != "" {
		authorities, err := r.Config.Authorities()
		if err != nil {
			return platform(v1alpha1.ConditionSourceReady, v1alpha1.ReasonInternalError,
				"the certificate authorities of the platform cannot be read", err)
		}
		if err := apply(ctx, r.Client, resources.BuildAuthorities(job, authorities)); err != nil {
			return err
		}
	}
	started := job.DeepCopy()
	started.Spec.Suspend = new(bool)
	if err := r.patchJob(ctx, job, started); err != nil {
		return fmt.Errorf("starting the fetch: %w", err)
	}
	return nil
}

func (r *FunctionReconciler) gitOptions(
	s *functionScope, fetch plan.GitFetch, credentials map[string][]byte,
) resources.GitOptions {
	cfg := r.Config
	return resources.GitOptions{
		Namespace:         cfg.Builds.Namespace,
		Source:            gitSourceKey(s.fn.Spec.Source.Git),
		Inputs:            gitInputs(s.fn, credentials),
		Sequence:          fetch.Sequence,
		Attempt:           fetch.Attempt,
		Known:             fetch.Known,
		Round:             fetch.Round,
		Queued:            fetch.Queued,
		CredentialFiles:   slices.Sorted(maps.Keys(credentials)),
		BuilderImage:      cfg.Builds.BuilderImage,
		ImagePullSecret:   cfg.Builds.ImagePullSecretName,
		StoreEnv:          storeEnv(cfg.ObjectStore),
		StoreSecret:       cfg.ObjectStore.SecretName,
		StoreAuthority:    cfg.ObjectStore.CAFile != "",
		CABundleConfigMap: cfg.Builds.CABundleConfigMap,
		MaxBytes:          cfg.Git.MaxBytes,
		TimeoutSeconds:    cfg.Git.TimeoutSeconds,
	}
}

// tellSourceFault ends a pass that went on with code that is known, in spite of a fault with its source.
func (r *FunctionReconciler) tellSourceFault(_ context.Context, s *functionScope) error {
	return s.sourceFault
}
