// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

const (
	// ContainerName is the name of the container that runs the user's code.
	ContainerName = "function"
	entrypointEnv = "SLESS_ENTRYPOINT"
	adminPortName = "admin"
	tmpVolume     = "tmp"
	tmpSize       = "1Gi"
	// nobody is the user of every sless container that runs user code.
	nobody = 65532
	// drainGraceSeconds is what the kubelet waits on top of the longest call before it kills a container.
	drainGraceSeconds = 10
)

// DeploymentOptions is what a Deployment needs beside the Function itself.
type DeploymentOptions struct {
	// Image is the function's image, by digest.
	Image string
	// SourceDigest is sha256:<hex> of the code.
	SourceDigest string
	// Entrypoint is `<file without extension>.<function>`.
	Entrypoint string
	// Replicas is nil when an autoscaler owns the number.
	Replicas *int32
	// DefaultResources apply as far as the Function sets none.
	DefaultResources corev1.ResourceRequirements
	// DefaultConcurrency is the runtime's number of calls in flight per replica. 0 leaves it to the watchdog.
	DefaultConcurrency int32
	// MaxBodyBytes is the largest request body.
	MaxBodyBytes int64
	// WritableRoot leaves out the volume of /tmp, which is then a folder of the container.
	WritableRoot bool
	// Mirrors maps what the Function refers to, to the names of the copies in the deploy namespace.
	Mirrors map[Source]string
	// ImagePullSecret names a Secret in the deploy namespace, or is empty.
	ImagePullSecret string
}

// Deployment builds the Deployment of a Function. An update keeps the old pods until the new ones have loaded the handler.
func Deployment(fn *v1alpha1.Function, opt DeploymentOptions) *appsv1.Deployment {
	template := podTemplate(fn, opt)
	revision := Revision(&template)
	template.Labels[v1alpha1.LabelRevision] = revision
	labels := OwnerLabels(fn, ComponentFunction)
	labels[v1alpha1.LabelRevision] = revision
	labels[v1alpha1.LabelSourceDigest] = ShortDigest(opt.SourceDigest)
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        fn.Name,
			Namespace:   naming.DeployNamespace(fn.Namespace),
			Labels:      labels,
			Annotations: OwnerAnnotations(fn),
		},
		Spec: appsv1.DeploymentSpec{
			Replicas:             opt.Replicas,
			Selector:             &metav1.LabelSelector{MatchLabels: SelectorLabels(fn)},
			RevisionHistoryLimit: ptr.To[int32](2),
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0)),
				},
			},
			Template: template,
		},
	}
}

// Revision is a hash of everything in a pod template.
func Revision(template *corev1.PodTemplateSpec) string {
	data, err := json.Marshal(template)
	if err != nil {
		panic(fmt.Sprintf("a pod template cannot be marshalled: %v", err))
	}
	return naming.Key(string(data))
}

func podTemplate(fn *v1alpha1.Function, opt DeploymentOptions) corev1.PodTemplateSpec {
	labels := OwnerLabels(fn, ComponentFunction)
	labels[v1alpha1.LabelSourceDigest] = ShortDigest(opt.SourceDigest)
	annotations := OwnerAnnotations(fn)
	if at := fn.Annotations[v1alpha1.AnnotationRestartedAt]; at != "" {
		annotations[v1alpha1.AnnotationRestartedAt] = at
	}
	volumes, mounts := userVolumes(fn, opt)
	spec := corev1.PodSpec{
		Containers:                    []corev1.Container{functionContainer(fn, opt, mounts)},
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(int64(timeoutSeconds(fn)) + drainGraceSeconds),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			RunAsUser:      ptr.To[int64](nobody),
			RunAsGroup:     ptr.To[int64](nobody),
			FSGroup:        ptr.To[int64](nobody),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: volumes,
	}
	setTmp(&spec, opt.WritableRoot)
	if opt.ImagePullSecret != "" {
		spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: opt.ImagePullSecret}}
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}, Spec: spec}
}

// setTmp gives the function a writable /tmp of tmpSize. The kubelet starts a pod with any volume up to 0.3 s later than one
// without: it looks that seldom whether volumes are mounted.
func setTmp(spec *corev1.PodSpec, writableRoot bool) {
	container := &spec.Containers[0]
	if writableRoot {
		container.SecurityContext.ReadOnlyRootFilesystem = new(false)
		return
	}
	volume := corev1.Volume{Name: tmpVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse(tmpSize))},
	}}
	spec.Volumes = append([]corev1.Volume{volume}, spec.Volumes...)
	container.VolumeMounts = append([]corev1.VolumeMount{{Name: tmpVolume, MountPath: "/tmp"}}, container.VolumeMounts...)
}

func functionContainer(fn *v1alpha1.Function, opt DeploymentOptions, mounts []corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name:    ContainerName,
		Image:   opt.Image,
		Args:    serveArgs(fn, opt),
		Env:     containerEnv(fn, opt),
		EnvFrom: containerEnvFrom(fn, opt),
		Ports: []corev1.ContainerPort{
			{Name: portName, ContainerPort: naming.FunctionPort, Protocol: corev1.ProtocolTCP},
			{Name: adminPortName, ContainerPort: naming.AdminPort, Protocol: corev1.ProtocolTCP},
		},
		Resources:                resourcesOf(fn, defaultResources(opt)),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		ReadinessProbe:           adminProbe("/readyz", 1, 3),
		LivenessProbe:            adminProbe("/healthz", 10, 6),
		SecurityContext:          restricted(),
		VolumeMounts:             mounts,
	}
}

func serveArgs(fn *v1alpha1.Function, opt DeploymentOptions) []string {
	timeout := strconv.Itoa(int(timeoutSeconds(fn))) + "s"
	args := []string{
		"serve",
		"--function-name=" + fn.Name,
		"--function-namespace=" + fn.Namespace,
		"--timeout=" + timeout,
		"--drain-timeout=" + timeout,
		"--max-body-bytes=" + strconv.FormatInt(opt.MaxBodyBytes, 10),
	}
	concurrency := opt.DefaultConcurrency
	if fn.Spec.Concurrency > 0 {
		concurrency = fn.Spec.Concurrency
	}
	if concurrency > 0 {
		args = append(args, "--concurrency="+strconv.Itoa(int(concurrency)))
	}
	return args
}

func timeoutSeconds(fn *v1alpha1.Function) int32 {
	if fn.Spec.TimeoutSeconds > 0 {
		return fn.Spec.TimeoutSeconds
	}
	return v1alpha1.DefaultTimeoutSeconds
}

// defaultResources adds a bound of what a container may write where no volume bounds it. Without a request the limit would be
// one, and a volume asks for nothing either.
func defaultResources(opt DeploymentOptions) corev1.ResourceRequirements {
	if !opt.WritableRoot {
		return opt.DefaultResources
	}
	defaults := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("0")},
		Limits:   corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(tmpSize)},
	}
	maps.Copy(defaults.Requests, opt.DefaultResources.Requests)
	maps.Copy(defaults.Limits, opt.DefaultResources.Limits)
	return defaults
}

// resourcesOf fills in the defaults, and keeps every request at or below its limit whichever of the two the user set.
func resourcesOf(fn *v1alpha1.Function, defaults corev1.ResourceRequirements) corev1.ResourceRequirements {
	set := fn.Spec.Resources
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for name, quantity := range defaults.Requests {
		if bound, ok := set.Limits[name]; ok && bound.Cmp(quantity) < 0 {
			quantity = bound
		}
		requests[name] = quantity
	}
	maps.Copy(requests, set.Requests)
	for name, quantity := range defaults.Limits {
		if request, ok := set.Requests[name]; ok && request.Cmp(quantity) > 0 {
			quantity = request
		}
		limits[name] = quantity
	}
	maps.Copy(limits, set.Limits)
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

func adminProbe(path string, periodSeconds, failureThreshold int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(adminPortName), Scheme: corev1.URISchemeHTTP},
		},
		PeriodSeconds: periodSeconds, TimeoutSeconds: 2, FailureThreshold: failureThreshold, SuccessThreshold: 1,
	}
}

func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// ShortDigest fits a digest into a label, which holds 63 characters.
func ShortDigest(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return hex[:min(len(hex), 32)]
}
