// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// ComponentGit marks the fetches from git repositories.
const ComponentGit = "git-fetch"

// GitClone is the container of a fetch.
const GitClone = "clone"

// Annotations of a fetch. They say what it was started for; the newest Jobs of a Function are all that is remembered of its
// fetches, beside the result in the Function's status.
const (
	// AnnotationGitSource is the hash of address, revision and path.
	AnnotationGitSource = "sless.io/git-source"
	// AnnotationGitInputs is a hash of the credentials.
	AnnotationGitInputs = "sless.io/git-inputs"
	// AnnotationGitSequence counts the fetches of a Function.
	AnnotationGitSequence = "sless.io/git-sequence"
	// AnnotationGitAttempt counts the fetches that failed before this one because of the platform.
	AnnotationGitAttempt = "sless.io/git-attempt"
)

const (
	scratchVolume     = "scratch"
	credentialsVolume = "credentials"
	scratchDir        = "/scratch"
	credentialsDir    = "/git-credentials"
	// fetchUser runs the fetch. It is the user of the image.
	fetchUser = 65532
	// gitStartSeconds is what a pod gets to start, on top of the time for the fetch itself.
	gitStartSeconds = 120
	// gitScratch has room for the repository, its files and the archive.
	gitScratch = "1Gi"
	// gitMemory is what a fetch may take. Each file of a repository is held in memory for a moment.
	gitMemory     = "1Gi"
	gitMemoryGoal = "900MiB"
)

// GitOptions is what a fetch needs beside the Function.
type GitOptions struct {
	// Namespace is where fetches run.
	Namespace string
	// Source and Inputs are hashes of what is fetched, and of the credentials.
	Source, Inputs string
	// Sequence and Attempt are the counters of the annotations.
	Sequence, Attempt int
	// Known is the commit that need not be fetched again, or empty.
	Known string
	// Round is the Job's in the queue. With Queued it is created suspended, and waits for its turn.
	Round  int
	Queued bool
	// CredentialFiles are the files of the Secret of the Job's own name. A Job that has some is created suspended, since its
	// Secret can only be made once it is there.
	CredentialFiles []string
	// BuilderImage is the image with /builder. ImagePullSecret is a Secret with which the node pulls it, or empty.
	BuilderImage, ImagePullSecret string
	// StoreEnv tells where the object store is. StoreSecret holds accessKey and secretKey.
	StoreEnv    []corev1.EnvVar
	StoreSecret string
	// StoreAuthority tells that the ConfigMap of the Job's own name holds the certificate authority of the object store. Such
	// a Job is created suspended too.
	StoreAuthority bool
	// CABundleConfigMap holds ca.crt, or is empty.
	CABundleConfigMap string
	// MaxBytes and TimeoutSeconds bound the fetch.
	MaxBytes       int64
	TimeoutSeconds int32
}

// GitJob builds the Job that fetches a commit and stores its files. Its name follows from all that it is for, so that it is
// created once. No code of a user runs in it.
func GitJob(fn *v1alpha1.Function, opt GitOptions) *batchv1.Job {
	labels := OwnerLabels(fn, ComponentGit)
	annotations := OwnerAnnotations(fn)
	maps.Copy(annotations, map[string]string{
		AnnotationGitSource: opt.Source, AnnotationGitInputs: opt.Inputs,
		AnnotationGitSequence: strconv.Itoa(opt.Sequence), AnnotationGitAttempt: strconv.Itoa(opt.Attempt),
	})
	asked := fn.Annotations[v1alpha1.AnnotationReconcileAt]
	if asked != "" {
		annotations[v1alpha1.AnnotationReconcileAt] = asked
	}
	name := naming.GitJob(naming.Key(string(fn.UID), opt.Source, opt.Inputs, asked, strconv.Itoa(opt.Sequence)))
	job := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: opt.Namespace, Labels: labels, Annotations: annotations,
		},
		Spec: batchv1.JobSpec{
			Suspend:               new(opt.Queued || len(opt.CredentialFiles) > 0 || opt.StoreAuthority),
			BackoffLimit:          ptr.To[int32](0),
			ActiveDeadlineSeconds: new(int64(opt.TimeoutSeconds) + gitStartSeconds),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: OwnerAnnotations(fn)},
				Spec:       gitPod(fn, opt, name),
			},
		},
	}
	SetRound(job, opt.Round)
	return job
}

func gitPod(fn *v1alpha1.Function, opt GitOptions, secret string) corev1.PodSpec {
	spec := corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			RunAsUser:      ptr.To[int64](fetchUser),
			RunAsGroup:     ptr.To[int64](fetchUser),
			FSGroup:        ptr.To[int64](fetchUser),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{gitContainer(fn, opt)},
		Volumes:    gitVolumes(opt, secret),
	}
	if opt.ImagePullSecret != "" {
		spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: opt.ImagePullSecret}}
	}
	return spec
}

func gitContainer(fn *v1alpha1.Function, opt GitOptions) corev1.Container {
	c := corev1.Container{
		Name:    GitClone,
		Image:   opt.BuilderImage,
		Command: []string{"/builder"},
		Args:    gitArgs(fn, opt),
		Env: append(slices.Clone(opt.StoreEnv),
			secretEnv("AWS_ACCESS_KEY_ID", opt.StoreSecret, "accessKey"),
			secretEnv("AWS_SECRET_ACCESS_KEY", opt.StoreSecret, "secretKey"),
			corev1.EnvVar{Name: "GOMEMLIMIT", Value: gitMemoryGoal}),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(gitMemory)},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             []corev1.VolumeMount{{Name: scratchVolume, MountPath: scratchDir}},
	}
	if len(opt.CredentialFiles) > 0 {
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: credentialsVolume, MountPath: credentialsDir, ReadOnly: true})
	}
	if opt.CABundleConfigMap != "" {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: caVolume, MountPath: caDir, ReadOnly: true})
	}
	if opt.StoreAuthority {
		c.Env = append(c.Env, corev1.EnvVar{Name: storeAuthorityVariable, Value: authoritiesDir + "/" + StoreAuthority})
		c.VolumeMounts = append(c.VolumeMounts, authoritiesMount())
	}
	return c
}

func gitArgs(fn *v1alpha1.Function, opt GitOptions) []string {
	source := fn.Spec.Source.Git
	args := []string{
		"clone", "--url=" + source.URL, "--namespace=" + fn.Namespace, "--scratch=" + scratchDir,
		fmt.Sprintf("--max-bytes=%d", opt.MaxBytes), fmt.Sprintf("--timeout=%ds", opt.TimeoutSeconds),
	}
	for _, optional := range []struct{ name, value string }{
		{"revision", source.Revision}, {"path", source.Path}, {"known", opt.Known},
	} {
		if optional.value != "" {
			args = append(args, "--"+optional.name+"="+optional.value)
		}
	}
	if len(opt.CredentialFiles) > 0 {
		args = append(args, "--credentials="+credentialsDir)
	}
	if opt.CABundleConfigMap != "" {
		args = append(args, "--ca-file="+caFile)
	}
	return args
}

func gitVolumes(opt GitOptions, secret string) []corev1.Volume {
	volumes := []corev1.Volume{{Name: scratchVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse(gitScratch))},
	}}}
	if len(opt.CredentialFiles) > 0 {
		items := make([]corev1.KeyToPath, 0, len(opt.CredentialFiles))
		for _, file := range opt.CredentialFiles {
			items = append(items, corev1.KeyToPath{Key: file, Path: file})
		}
		volumes = append(volumes, corev1.Volume{Name: credentialsVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: items, DefaultMode: ptr.To[int32](0o440)},
		}})
	}
	if opt.CABundleConfigMap != "" {
		volumes = append(volumes, corev1.Volume{Name: caVolume, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: opt.CABundleConfigMap},
				Items:                []corev1.KeyToPath{{Key: caKey, Path: caKey}},
			},
		}})
	}
	if opt.StoreAuthority {
		volumes = append(volumes, authoritiesVolumeOf(secret))
	}
	return volumes
}
