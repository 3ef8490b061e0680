// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"maps"
	"slices"
	"strings"

	"github.com/GoogleContainerTools/kaniko/pkg/constants"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// Containers of a build pod, in the order in which they run.
const (
	BuildFetch = "fetch"
	// BuildPull is there only when the registry wants a login: kaniko has none.
	BuildPull   = "pull"
	BuildKaniko = "kaniko"
	BuildPush   = "push"
)

const (
	workspaceVolume = "workspace"
	outputVolume    = "output"
	caVolume        = "ca"
	dockerVolume    = "docker"
	indexVolume     = "index"
	// IndexDir is where the kaniko step finds the files that configure private package indexes.
	IndexDir     = "/sless-index"
	workspaceDir = "/workspace"
	outputDir    = "/out"
	caDir        = "/sless-ca"
	dockerDir    = "/docker"
	imageTar     = outputDir + "/image.tar"
	caFile       = caDir + "/ca.crt"
	caKey        = "ca.crt"
)

// caVariables are how installers are told of certificate authorities.
var caVariables = []string{"NODE_EXTRA_CA_CERTS", "PIP_CERT", "SSL_CERT_FILE"}

// kanikoCapabilities are what unpacking an image as root takes; all others are dropped.
var kanikoCapabilities = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "SETFCAP"}

// BuildOptions is what a build Job needs beside the Function.
type BuildOptions struct {
	// Namespace is where builds run.
	Namespace string
	// Key is the hash of everything that the result depends on.
	Key string
	// Round is the Job's in the queue.
	Round int
	// ContextKey and ContextDigest find the build context in the object store.
	ContextKey, ContextDigest string
	// CodeKey and CodeDigest find the code, for a build that sees all of it. Otherwise they are empty.
	CodeKey, CodeDigest string
	// Labels are set on the image that is pushed.
	Labels map[string]string
	// Base is the image that the build starts from, by digest. Its layers are mounted in the registry, not sent again.
	Base string
	// Target is the image to push, repository:tag.
	Target string
	// KanikoImage and BuilderImage are the images of the steps.
	KanikoImage, BuilderImage string
	// StoreEnv tells the fetch step where the object store is. StoreSecret holds accessKey and secretKey.
	StoreEnv    []corev1.EnvVar
	StoreSecret string
	// InsecureRegistries are spoken to by plain HTTP.
	InsecureRegistries []string
	// PushSecret is a Secret of type kubernetes.io/dockerconfigjson, or empty.
	PushSecret string
	// ImagePullSecret is a Secret with which the node pulls the images of the steps, or empty.
	ImagePullSecret string
	// Authorities are the keys of the ConfigMap of the build's own name with which the steps check the registry and the
	// object store.
	Authorities []string
	// CABundleConfigMap holds ca.crt, or is empty.
	CABundleConfigMap string
	// Env becomes build arguments.
	Env map[string]string
	// IndexFiles are the files of the Secret of the build's own name that configure private package indexes. Install
	// scripts can read them.
	IndexFiles []string
	// Resources of the kaniko step.
	Resources corev1.ResourceRequirements
	// TimeoutSeconds bounds the whole build.
	TimeoutSeconds int32
}

// BuildArguments returns the names of the build arguments that a build of these options gets, sorted: the Dockerfile must
// declare them.
func BuildArguments(env map[string]string, caBundle bool) []string {
	names := slices.Collect(maps.Keys(env))
	if caBundle {
		names = append(names, caVariables...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// BuildSecret builds the copy of the files that configure private package indexes, for one build. It goes with the Job.
func BuildSecret(job *batchv1.Job, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: goesWith(job),
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	}
}

// BuildJob builds the Job that makes a dependency image. It is created suspended: the queue starts it. Install scripts are
// user code, so the step that runs them holds no credential, and the steps with credentials run no user code.
func BuildJob(fn *v1alpha1.Function, opt BuildOptions) *batchv1.Job {
	labels := OwnerLabels(fn, ComponentBuild)
	annotations := OwnerAnnotations(fn)
	if at := fn.Annotations[v1alpha1.AnnotationReconcileAt]; at != "" {
		annotations[v1alpha1.AnnotationReconcileAt] = at
	}
	job := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: naming.BuildJob(opt.Key), Namespace: opt.Namespace, Labels: labels, Annotations: annotations,
		},
		Spec: batchv1.JobSpec{
			Suspend:               new(true),
			BackoffLimit:          ptr.To[int32](0),
			ActiveDeadlineSeconds: new(int64(opt.TimeoutSeconds)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: OwnerAnnotations(fn)},
				Spec:       buildPod(opt),
			},
		},
	}
	SetRound(job, opt.Round)
	return job
}

func buildPod(opt BuildOptions) corev1.PodSpec {
	spec := corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		SecurityContext: &corev1.PodSecurityContext{
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		InitContainers: []corev1.Container{fetchStep(opt), kanikoStep(opt)},
		Containers:     []corev1.Container{pushStep(opt)},
		Volumes:        buildVolumes(opt),
	}
	if opt.PushSecret != "" {
		spec.InitContainers = slices.Insert(spec.InitContainers, 1, pullStep(opt))
	}
	if opt.ImagePullSecret != "" {
		spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: opt.ImagePullSecret}}
	}
	return spec
}

func fetchStep(opt BuildOptions) corev1.Container {
	env := append(slices.Clone(opt.StoreEnv),
		secretEnv("AWS_ACCESS_KEY_ID", opt.StoreSecret, "accessKey"),
		secretEnv("AWS_SECRET_ACCESS_KEY", opt.StoreSecret, "secretKey"))
	args := []string{
		"fetch", "--key=" + opt.ContextKey, "--sha256=" + hexOf(opt.ContextDigest), "--dest=" + workspaceDir,
	}
	if opt.CodeKey != "" {
		args = append(args, "--under="+opt.CodeKey+"="+hexOf(opt.CodeDigest))
	}
	c := builderStep(BuildFetch, opt, args, corev1.VolumeMount{Name: workspaceVolume, MountPath: workspaceDir})
	c.Env = env
	if path, ok := opt.authority(StoreAuthority); ok {
		c.Env = append(c.Env, corev1.EnvVar{Name: storeAuthorityVariable, Value: path})
		c.VolumeMounts = append(c.VolumeMounts, authoritiesMount())
	}
	return c
}

// builderStep is a step that runs our own program.
func builderStep(name string, opt BuildOptions, args []string, mounts ...corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name:                     name,
		Image:                    opt.BuilderImage,
		Command:                  []string{"/builder"},
		Args:                     args,
		Resources:                stepResources(),
		SecurityContext:          stepSecurity(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             mounts,
	}
}

func kanikoStep(opt BuildOptions) corev1.Container {
	c := corev1.Container{
		Name:  BuildKaniko,
		Image: opt.KanikoImage,
		Args:  kanikoArgs(opt),
		// kaniko refuses to run where it sees no sign of a container.
		Env:                      []corev1.EnvVar{{Name: "container", Value: "kube"}},
		Resources:                opt.Resources,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			RunAsUser:                ptr.To[int64](0),
			AllowPrivilegeEscalation: new(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: kanikoCapabilities},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: workspaceVolume, MountPath: workspaceDir},
			{Name: outputVolume, MountPath: outputDir},
		},
	}
	if opt.CABundleConfigMap != "" {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: caVolume, MountPath: caDir, ReadOnly: true})
	}
	if len(opt.IndexFiles) > 0 {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: indexVolume, MountPath: IndexDir, ReadOnly: true})
	}
	if opt.PushSecret != "" {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: baseVolume, MountPath: baseDir, ReadOnly: true})
	} else if _, ok := opt.authority(RegistryAuthority); ok {
		c.VolumeMounts = append(c.VolumeMounts, authoritiesMount())
	}
	return c
}

func kanikoArgs(opt BuildOptions) []string {
	args := []string{
		"--context=" + constants.LocalDirBuildContextPrefix + workspaceDir,
		"--dockerfile=" + workspaceDir + "/Dockerfile",
		"--destination=" + opt.Target,
		"--no-push",
		"--tar-path=" + imageTar,
		"--snapshot-mode=" + constants.SnapshotModeRedo,
		"--compressed-caching=false",
		// Files with credentials for package indexes are removed in the step that uses them, and one snapshot keeps them
		// out of every layer.
		"--single-snapshot",
		"--log-format=text",
		"--log-timestamp=false",
		"--image-download-retry=3",
	}
	args = append(args, baseArgs(opt)...)
	for _, name := range BuildArguments(opt.Env, opt.CABundleConfigMap != "") {
		value, ok := opt.Env[name]
		if !ok {
			value = caFile
		}
		args = append(args, "--build-arg="+name+"="+value)
	}
	return args
}

func pushStep(opt BuildOptions) corev1.Container {
	args := []string{"push", "--tar=" + imageTar, "--target=" + opt.Target, "--base=" + opt.Base}
	// kaniko could set them too, but code of the user ran where it runs.
	for _, name := range slices.Sorted(maps.Keys(opt.Labels)) {
		args = append(args, "--label="+name+"="+opt.Labels[name])
	}
	args = append(args, registryArgs(opt)...)
	c := builderStep(BuildPush, opt, args, corev1.VolumeMount{Name: outputVolume, MountPath: outputDir, ReadOnly: true})
	withRegistry(&c, opt)
	return c
}

func buildVolumes(opt BuildOptions) []corev1.Volume {
	scratch := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("4Gi"))}}
	volumes := []corev1.Volume{
		{Name: workspaceVolume, VolumeSource: scratch},
		{Name: outputVolume, VolumeSource: scratch},
	}
	if opt.CABundleConfigMap != "" {
		volumes = append(volumes, corev1.Volume{Name: caVolume, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: opt.CABundleConfigMap},
				Items:                []corev1.KeyToPath{{Key: caKey, Path: caKey}},
			},
		}})
	}
	volumes = append(volumes, registryVolumes(opt)...)
	if len(opt.IndexFiles) > 0 {
		items := make([]corev1.KeyToPath, 0, len(opt.IndexFiles))
		for _, file := range opt.IndexFiles {
			items = append(items, corev1.KeyToPath{Key: file, Path: file})
		}
		volumes = append(volumes, corev1.Volume{Name: indexVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: naming.BuildJob(opt.Key), Items: items},
		}})
	}
	return volumes
}

func secretEnv(name, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key,
	}}}
}

// stepSecurity is for the steps that run our own program. They run as root's group-less self because the files that they
// exchange with kaniko belong to root, and they hold no capability.
func stepSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser:                ptr.To[int64](0),
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func stepResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
}

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }
