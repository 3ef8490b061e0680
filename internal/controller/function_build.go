// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/runtimes"
)

// ensureDependencies finds the image that the code is laid over: the runtime's, or one with the dependencies installed,
// which is built when it does not exist.
func (r *FunctionReconciler) ensureDependencies(ctx context.Context, s *functionScope) error {
	if s.image != "" {
		return nil
	}
	base, err := r.runtimeImage(ctx, s.runtime)
	if err != nil {
		return err
	}
	if s.fn.Spec.Build.Strategy == v1alpha1.BuildStrategyFull {
		return r.ensureFullImage(ctx, s, base)
	}
	manifest, ok := s.code.file(s.runtime.Dependencies.Manifest)
	needed := false
	if ok {
		if needed, err = s.runtime.HasDependencies([]byte(manifest)); err != nil {
			return stalled(v1alpha1.ConditionBuilt, v1alpha1.ReasonManifestInvalid, "%s", err.Error())
		}
	}
	if !needed {
		s.buildBase = base
		return nil
	}
	build, err := r.planBuild(ctx, s, base)
	if err != nil {
		return err
	}
	repository := naming.DependencyRepository(r.Config.Registry.Host, s.fn.Namespace)
	digest, err := r.dependencyImage(ctx, s, build, repository+":"+build.key)
	if err != nil {
		return err
	}
	s.buildBase = repository + "@" + digest
	return nil
}

// dependencyBuild is a build context and the key of what it makes.
type dependencyBuild struct {
	key     string
	base    string
	context *archive.Archive
	// code is set for a build that sees all of it.
	code *codeArchive
	// env becomes build arguments; indexFiles come from the Secret that the Function names.
	env        map[string]string
	indexFiles map[string][]byte
}

// planBuild makes the build context: the generated Dockerfile and the dependency files, nothing else. Its digest is the
// key, so that a build depends on just what it sees.
func (r *FunctionReconciler) planBuild(ctx context.Context, s *functionScope, base string) (dependencyBuild, error) {
	env, indexFiles, err := r.indexConfig(ctx, s)
	if err != nil {
		return dependencyBuild{}, err
	}
	packed, err := r.buildContext(s, s.runtime.DependencyFiles(), env, func(present, arguments []string) string {
		return s.runtime.Dockerfile(base, present, arguments)
	})
	if err != nil {
		return dependencyBuild{}, err
	}
	key := naming.Key(append([]string{runtimes.DockerfileVersion, s.fn.Namespace, packed.Digest}, sortedEnv(env)...)...)
	return dependencyBuild{key: key, base: base, context: packed, env: env, indexFiles: indexFiles}, nil
}

// buildContext packs those of the named files that the code has with the Dockerfile that dockerfile makes for them and for
// the names of the build's arguments.
func (r *FunctionReconciler) buildContext(
	s *functionScope, names []string, env map[string]string, dockerfile func(present, arguments []string) string,
) (*archive.Archive, error) {
	files := map[string]string{}
	present := []string{}
	for _, name := range names {
		if text, ok := s.code.file(name); ok {
			files[name] = text
			present = append(present, name)
		}
	}
	files["Dockerfile"] = dockerfile(present, resources.BuildArguments(env, r.Config.Builds.CABundleConfigMap != ""))
	packed, err := archive.FromFiles(files, archive.Options{Limits: archive.DefaultLimits})
	if err != nil {
		return nil, sourceFault(err)
	}
	return packed, nil
}

// sortedEnv returns the variables as NAME=value.
func sortedEnv(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// dependencyImage returns the digest of the dependency image, building it first if need be.
func (r *FunctionReconciler) dependencyImage(
	ctx context.Context, s *functionScope, build dependencyBuild, target string,
) (string, error) {
	s.keepInQueue(naming.BuildJob(build.key))
	if err := r.claims.claim(ctx, s.now, imageClaim(target)); err != nil {
		return "", err
	}
	if digest, ok := r.knownImage(s, target); ok {
		return digest, nil
	}
	digest, ok, err := r.Images.Exists(ctx, target)
	if err != nil {
		return "", imageFault("the dependency image cannot be looked up", err)
	}
	if ok {
		r.known.put(knownImage, target, digest)
		return digest, r.removeBuild(ctx, build.key)
	}
	return "", r.runBuild(ctx, s, build, target)
}

// runBuild takes the build Job one step further. It always returns an error, which says how far the build is.
func (r *FunctionReconciler) runBuild(ctx context.Context, s *functionScope, build dependencyBuild, target string) error {
	jobs, err := r.builds(ctx, r.Client)
	if err != nil {
		return err
	}
	job := jobNamed(jobs, naming.BuildJob(build.key))
	pods := &corev1.PodList{}
	if job != nil {
		if err := r.List(ctx, pods, client.InNamespace(job.Namespace),
			client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
			return fmt.Errorf("listing the pods of the build: %w", err)
		}
	}
	refused, err := r.refusal(ctx, job, pods.Items)
	if err != nil {
		return err
	}
	state := plan.BuildState{
		Namespace: s.fn.Namespace,
		Job:       job, Pods: pods.Items, Jobs: jobs, MaxConcurrent: r.Config.Builds.MaxConcurrent,
		Refused: refused, Attempts: r.known.attempts(build.key), Now: s.now, RetryAsked: r.retryAsked(s.fn, job),
	}
	step := plan.NextBuildStep(state)
	if step.Action == plan.BuildStart {
		// The cache may not have seen yet that a slot was taken, or that a Job whose turn comes first was queued. So builds are
		// started one after the other, by what the API server says.
		r.starting.Lock()
		defer r.starting.Unlock()
		if state.Jobs, err = r.builds(ctx, r.APIReader); err != nil {
			return err
		}
		step = plan.NextBuildStep(state)
	}
	return r.takeBuildStep(ctx, s, build, target, job, step)
}

// builds lists the builds of all Functions.
func (r *FunctionReconciler) builds(ctx context.Context, reader client.Reader) ([]batchv1.Job, error) {
	jobs := &batchv1.JobList{}
	if err := reader.List(ctx, jobs, client.InNamespace(r.Config.Builds.Namespace),
		client.MatchingLabels(resources.ComponentLabels(resources.ComponentBuild))); err != nil {
		return nil, fmt.Errorf("listing the builds: %w", err)
	}
	return jobs.Items, nil
}

// retryAsked returns the value of the annotation by which the user asks for another attempt. What was done already counts
// no more: Functions that share a build would otherwise undo each other's attempts for ever.
func (r *FunctionReconciler) retryAsked(fn *v1alpha1.Function, job *batchv1.Job) string {
	asked := fn.Annotations[v1alpha1.AnnotationReconcileAt]
	if job == nil {
		return asked
	}
	if done, _ := r.known.get(knownAsked, job.Name+"/"+string(fn.UID)); done == asked {
		return ""
	}
	return asked
}

// noteAsked remembers that what the user asks for is being done.
func (r *FunctionReconciler) noteAsked(fn *v1alpha1.Function, job *batchv1.Job) {
	r.known.put(knownAsked, job.Name+"/"+string(fn.UID), fn.Annotations[v1alpha1.AnnotationReconcileAt])
}

func (r *FunctionReconciler) takeBuildStep(ctx context.Context, s *functionScope, build dependencyBuild, target string,
	job *batchv1.Job, step plan.BuildStep,
) error {
	switch step.Action {
	case plan.BuildCreate:
		return r.createBuild(ctx, s, build, target, step.Round)
	case plan.BuildStart:
		r.noteAsked(s.fn, job)
		return r.startBuild(ctx, s, build, job)
	case plan.BuildSuspend:
		return r.suspendBuild(ctx, s, job, step)
	case plan.BuildDelete:
		r.noteAsked(s.fn, job)
		if err := r.removeBuild(ctx, build.key); err != nil {
			return err
		}
		if step.Reason == "" {
			return building(v1alpha1.ReasonBuilding, "starting the build again")
		}
		attempts := r.known.attempted(build.key)
		return building(v1alpha1.ReasonBuilding, "trying again, %d. time, after %s: %s",
			attempts, step.Reason, step.Message)
	case plan.BuildHold:
		return heldBuild(step)
	case plan.BuildFailed:
		return stalled(v1alpha1.ConditionBuilt, step.Reason, "%s", step.Message)
	default:
		return &phaseError{
			kind: kindWaiting, condition: v1alpha1.ConditionBuilt, reason: step.Reason, message: step.Message,
			after: cmp.Or(step.After, recheck),
		}
	}
}

// building is work of a build that goes on. A watch tells when it ends, unless another Function has started it and it ended
// before the status of this one said that it waits for it.
func building(reason, format string, args ...any) error {
	return &phaseError{
		kind: kindWaiting, condition: v1alpha1.ConditionBuilt, reason: reason, message: fmt.Sprintf(format, args...), after: recheck,
	}
}

// heldBuild says that a build goes on after a pause.
func heldBuild(step plan.BuildStep) error {
	return &phaseError{
		kind: kindPlatform, condition: v1alpha1.ConditionBuilt, reason: step.Reason,
		message: step.Message + "; it is built again in a while", after: step.After,
	}
}

func (r *FunctionReconciler) createBuild(
	ctx context.Context, s *functionScope, build dependencyBuild, target string, round int,
) error {
	if err := r.storeOnce(ctx, s.fn.Namespace, build.context); err != nil {
		return err
	}
	options := r.buildOptions(s, build, target)
	options.Round = round
	job := resources.BuildJob(s.fn, options)
	if err := r.Create(ctx, job, client.FieldOwner(v1alpha1.FieldOwnerController)); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating the build: %w", err)
	}
	return building(v1alpha1.ReasonBuildQueued, "the build of the dependencies was queued")
}

func (r *FunctionReconciler) buildOptions(s *functionScope, build dependencyBuild, target string) resources.BuildOptions {
	store, builds := r.Config.ObjectStore, r.Config.Builds
	options := resources.BuildOptions{
		Namespace:          builds.Namespace,
		Key:                build.key,
		ContextKey:         objectstore.CodeKey(s.fn.Namespace, build.context.Digest),
		ContextDigest:      build.context.Digest,
		Base:               build.base,
		Target:             target,
		KanikoImage:        builds.KanikoImage,
		BuilderImage:       builds.BuilderImage,
		StoreEnv:           storeEnv(store),
		StoreSecret:        store.SecretName,
		InsecureRegistries: r.Config.Registry.Insecure,
		PushSecret:         r.Config.Registry.PushSecretName,
		ImagePullSecret:    builds.ImagePullSecretName,
		Authorities:        r.Config.AuthorityNames(),
		CABundleConfigMap:  builds.CABundleConfigMap,
		Env:                build.env,
		IndexFiles:         slices.Sorted(maps.Keys(build.indexFiles)),
		Resources:          builds.Resources,
		TimeoutSeconds:     buildTimeout(s.fn),
		Labels:             map[string]string{v1alpha1.LabelNamespace: s.fn.Namespace},
	}
	if build.code != nil {
		options.CodeKey = objectstore.CodeKey(s.fn.Namespace, build.code.digest)
		options.CodeDigest = build.code.digest
		options.Labels[v1alpha1.LabelSourceDigest] = build.code.digest
	}
	return options
}

// storeEnv tells a step where the object store is.
func storeEnv(store config.ObjectStore) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "S3_ENDPOINT", Value: store.Endpoint},
		{Name: "S3_REGION", Value: store.Region},
		{Name: "S3_BUCKET", Value: store.Bucket},
		{Name: "S3_PATH_STYLE", Value: strconv.FormatBool(store.PathStyle)},
		{Name: "S3_INSECURE", Value: strconv.FormatBool(store.Insecure)},
	}
}

func buildTimeout(fn *v1alpha1.Function) int32 {
	if fn.Spec.Build.TimeoutSeconds > 0 {
		return fn.Spec.Build.TimeoutSeconds
	}
	return v1alpha1.DefaultBuildTimeoutSeconds
}

// startBuild lets a queued Job go, once its Secret is there.
func (r *FunctionReconciler) startBuild(ctx context.Context, s *functionScope, build dependencyBuild, job *batchv1.Job) error {
	if len(build.indexFiles) > 0 {
		if err := apply(ctx, r.Client, resources.BuildSecret(job, build.indexFiles)); err != nil {
			return err
		}
	}
	authorities, err := r.Config.Authorities()
	if err != nil {
		return platform(v1alpha1.ConditionBuilt, v1alpha1.ReasonInternalError,
			"the certificate authorities of the platform cannot be read", err)
	}
	if len(authorities) > 0 {
		if err := apply(ctx, r.Client, resources.BuildAuthorities(job, authorities)); err != nil {
			return err
		}
	}
	started := job.DeepCopy()
	started.Spec.Suspend = new(bool)
	if asked := s.fn.Annotations[v1alpha1.AnnotationReconcileAt]; asked != "" {
		metav1.SetMetaDataAnnotation(&started.ObjectMeta, v1alpha1.AnnotationReconcileAt, asked)
	}
	if err := r.patchJob(ctx, job, started); err != nil {
		return fmt.Errorf("starting the build: %w", err)
	}
	return building(v1alpha1.ReasonBuilding, "the dependencies are being installed")
}

// suspendBuild takes a build back that gets no pod, and notes on it for how long. The next start sets its clock back.
func (r *FunctionReconciler) suspendBuild(ctx context.Context, s *functionScope, job *batchv1.Job, step plan.BuildStep) error {
	suspended := job.DeepCopy()
	suspended.Spec.Suspend = new(true)
	resources.Hold(suspended, resources.Held{
		Until: s.now.Add(step.After), Times: resources.HeldOf(job).Times + 1, Reason: step.Reason, Message: step.Message,
	})
	if err := r.patchJob(ctx, job, suspended); err != nil {
		return fmt.Errorf("suspending the build: %w", err)
	}
	return heldBuild(step)
}

// patchJob changes a Job, unless it is another one by now than the one that was decided on. That is no fault: Kubernetes
// notes on a Job that it is suspended, and Functions share builds. The watch brings the newer one.
func (r *FunctionReconciler) patchJob(ctx context.Context, base, changed *batchv1.Job) error {
	patch := client.MergeFromWithOptions(base.DeepCopy(), client.MergeFromWithOptimisticLock{})
	err := r.Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldOwnerController))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeBuild deletes the Job of a build that ended. It is no error when there is none.
func (r *FunctionReconciler) removeBuild(ctx context.Context, key string) error {
	return r.removeJob(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Config.Builds.Namespace, Name: naming.BuildJob(key)},
	})
}

// removeJob deletes a Job with its pods. It is no error when there is none.
func (r *FunctionReconciler) removeJob(ctx context.Context, job *batchv1.Job) error {
	err := r.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing Job %s: %w", client.ObjectKeyFromObject(job), err)
	}
	return nil
}

func jobNamed(jobs []batchv1.Job, name string) *batchv1.Job {
	for i := range jobs {
		if jobs[i].Name == name {
			return &jobs[i]
		}
	}
	return nil
}
