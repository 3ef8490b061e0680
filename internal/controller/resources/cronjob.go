// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"cmp"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

const (
	// ComponentCron marks what calls a function on a schedule.
	ComponentCron = "cron"

	cronEventDir = "/event"
	eventKey     = "event.json"

	// runMarginSeconds is granted to a run on top of its call: for its own pod to start, and for a gateway that cannot be
	// reached at once.
	runMarginSeconds = 150
	// cronTTLSeconds is how long a run that ended can be looked at.
	cronTTLSeconds = 24 * 60 * 60
	// cronGraceSeconds is how long a run that is replaced may take to hang up.
	cronGraceSeconds = 5
)

// CronOptions is what a CronJob needs beside the Trigger.
type CronOptions struct {
	// GatewayURL is the gateway's public port inside the cluster, without a path.
	GatewayURL string
	// BuilderImage is the image with /builder.
	BuilderImage string
	// ImagePullSecret names a Secret in the deploy namespace, or is empty.
	ImagePullSecret string
	// Suspend keeps the CronJob from firing.
	Suspend bool
	// TimeZone of the schedule.
	TimeZone string
	// StartingDeadlineSeconds is how late a run may start, nil for any time.
	StartingDeadlineSeconds *int64
	// ScheduleSince, when it is not zero, is the time since which ticks count.
	ScheduleSince time.Time
	// TimeoutSeconds is that of the function. StartupSeconds is granted on top of it, for a replica that has to start first.
	TimeoutSeconds, StartupSeconds int32
}

// TriggerLabels are the labels of everything that is made for a Trigger.
func TriggerLabels(t *v1alpha1.Trigger, component string) map[string]string {
	return map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless,
		v1alpha1.LabelFunction:  t.Spec.FunctionRef.Name,
		v1alpha1.LabelOwnerUID:  string(t.UID),
		componentLabel:          component,
	}
}

// CronRunLabels select the Jobs and pods of the runs of a Trigger.
func CronRunLabels(t *v1alpha1.Trigger) map[string]string {
	return map[string]string{v1alpha1.LabelOwnerUID: string(t.UID), componentLabel: ComponentCron}
}

// TriggerAnnotations lead from an object back to its Trigger, whose namespace is another.
func TriggerAnnotations(t *v1alpha1.Trigger) map[string]string {
	return map[string]string{v1alpha1.AnnotationTrigger: t.Namespace + "/" + t.Name}
}

// CronEvent builds the ConfigMap with the event of a Trigger, or returns nil when it has none.
func CronEvent(t *v1alpha1.Trigger) *corev1.ConfigMap {
	if !hasEvent(t) {
		return nil
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: cronMeta(t),
		Data:       map[string]string{eventKey: string(t.Spec.Cron.Event.Raw)},
	}
}

func hasEvent(t *v1alpha1.Trigger) bool {
	return t.Spec.Cron.Event != nil && len(t.Spec.Cron.Event.Raw) > 0
}

func cronMeta(t *v1alpha1.Trigger) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: naming.CronJob(t.Name), Namespace: naming.DeployNamespace(t.Namespace),
		Labels: TriggerLabels(t, ComponentCron), Annotations: TriggerAnnotations(t),
	}
}

// CronJob builds the CronJob of a Trigger. Each run is one call, which is never made again: a function that got it may have
// done its work before it failed.
func CronJob(t *v1alpha1.Trigger, opt CronOptions) *batchv1.CronJob {
	spec := t.Spec.Cron
	job := &batchv1.CronJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"},
		ObjectMeta: cronMeta(t),
		Spec: batchv1.CronJobSpec{
			Schedule:                   spec.Schedule,
			TimeZone:                   new(opt.TimeZone),
			StartingDeadlineSeconds:    opt.StartingDeadlineSeconds,
			ConcurrencyPolicy:          batchv1.ConcurrencyPolicy(cmp.Or(spec.ConcurrencyPolicy, v1alpha1.ConcurrencyForbid)),
			Suspend:                    new(opt.Suspend),
			SuccessfulJobsHistoryLimit: ptr.To[int32](1),
			FailedJobsHistoryLimit:     ptr.To[int32](3),
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: TriggerLabels(t, ComponentCron), Annotations: TriggerAnnotations(t)},
				Spec: batchv1.JobSpec{
					BackoffLimit:            ptr.To[int32](0),
					ActiveDeadlineSeconds:   new(int64(opt.TimeoutSeconds) + int64(opt.StartupSeconds) + runMarginSeconds),
					TTLSecondsAfterFinished: ptr.To[int32](cronTTLSeconds),
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: TriggerLabels(t, ComponentCron), Annotations: TriggerAnnotations(t)},
						Spec:       cronPod(t, opt),
					},
				},
			},
		},
	}
	if !opt.ScheduleSince.IsZero() {
		job.Annotations[v1alpha1.AnnotationScheduleSince] = opt.ScheduleSince.UTC().Format(time.RFC3339)
	}
	return job
}

func cronPod(t *v1alpha1.Trigger, opt CronOptions) corev1.PodSpec {
	pod := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: ptr.To[int64](cronGraceSeconds),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			RunAsUser:      ptr.To[int64](nobody),
			RunAsGroup:     ptr.To[int64](nobody),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{invokeContainer(t, opt)},
	}
	if opt.ImagePullSecret != "" {
		pod.ImagePullSecrets = []corev1.LocalObjectReference{{Name: opt.ImagePullSecret}}
	}
	if hasEvent(t) {
		pod.Volumes = []corev1.Volume{{Name: eventVolume, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: naming.CronJob(t.Name)}},
		}}}
	}
	return pod
}

func invokeContainer(t *v1alpha1.Trigger, opt CronOptions) corev1.Container {
	c := corev1.Container{
		Name:    "invoke",
		Image:   opt.BuilderImage,
		Command: []string{"/builder"},
		Args: []string{
			"invoke",
			"--url=" + opt.GatewayURL + naming.PublicPath(t.Namespace, t.Spec.FunctionRef.Name),
			"--method=" + string(cmp.Or(t.Spec.Cron.Method, "POST")),
			"--trigger=" + t.Name,
			"--source=/namespaces/" + t.Namespace + "/triggers/" + t.Name,
			"--timeout=" + strconv.Itoa(int(opt.TimeoutSeconds)+int(opt.StartupSeconds)) + "s",
		},
		// The name of the Job is the same however often the manager or the CronJob controller begins anew, and another for
		// each tick: functions can tell a run by it.
		Env: []corev1.EnvVar{{Name: "SLESS_RUN", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['" + batchv1.JobNameLabel + "']"},
		}}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext:          restricted(),
	}
	if hasEvent(t) {
		c.Args = append(c.Args, "--event="+cronEventDir+"/"+eventKey)
		c.VolumeMounts = []corev1.VolumeMount{{Name: eventVolume, MountPath: cronEventDir, ReadOnly: true}}
	}
	return c
}
