// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

const (
	// ComponentRun marks what is made for a run of a FunctionJob.
	ComponentRun = "run"

	eventVolume = "event"
	// eventDir lies in a folder that no volume of a user may cover.
	eventDir  = "/sless/event"
	eventFile = "event.json"
	// noEvent is what a function gets that is run without an event.
	noEvent = "null"

	// runGraceSeconds is what a run that is cancelled gets to end by itself.
	runGraceSeconds = 10
	// RunLoadSeconds is the longest that the watchdog lets a handler take to load.
	RunLoadSeconds = 120
	// RunStartSeconds is what a pod gets, on top of loading and running, to mount its volumes and pull its image.
	RunStartSeconds = 600
)

// RunJob builds the Job of the run that the FunctionJob asks for. pod is what a pod of the Function needs, with the names of
// the run's own copies of Secrets and ConfigMaps. Each attempt is a pod of its own, which is kept for its
// log, and none begins before the last one has ended. The Job lives in the deploy namespace.
func RunJob(j *v1alpha1.FunctionJob, fn *v1alpha1.Function, pod DeploymentOptions) *batchv1.Job {
	annotations := RunAnnotations(j)
	annotations[v1alpha1.AnnotationFunctionUID] = string(fn.UID)
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        naming.Run(j.Name, string(j.UID), j.Spec.RunID),
			Namespace:   naming.DeployNamespace(j.Namespace),
			Labels:      RunLabels(j, j.Spec.RunID),
			Annotations: annotations,
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:         new(j.Spec.Retries),
			PodReplacementPolicy: ptr.To(batchv1.Failed),
			Template:             runTemplate(j, fn, pod),
		},
	}
}

// runTemplate takes the pod of the Function and lets it call the handler once instead of serving.
func runTemplate(j *v1alpha1.FunctionJob, fn *v1alpha1.Function, pod DeploymentOptions) corev1.PodTemplateSpec {
	template := podTemplate(fn, pod)
	// The labels of a Function's pods would make its Service send calls here.
	template.Labels = RunLabels(j, j.Spec.RunID)
	template.Annotations = RunAnnotations(j)
	timeout := RunTimeoutSeconds(j, fn)
	spec := &template.Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.TerminationGracePeriodSeconds = ptr.To[int64](runGraceSeconds)
	spec.ActiveDeadlineSeconds = new(int64(timeout) + RunLoadSeconds + RunStartSeconds)
	spec.Volumes = append(spec.Volumes, corev1.Volume{
		Name: eventVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: RunEventName(j, j.Spec.RunID)}},
	})
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if c.Name != ContainerName {
			continue
		}
		c.Args = []string{
			"run",
			"--event-file=" + eventDir + "/" + eventFile,
			"--function-name=" + fn.Name,
			"--function-namespace=" + fn.Namespace,
			"--timeout=" + strconv.Itoa(int(timeout)) + "s",
			"--load-timeout=" + strconv.Itoa(RunLoadSeconds) + "s",
			"--max-body-bytes=" + strconv.FormatInt(pod.MaxBodyBytes, 10),
		}
		c.Ports, c.ReadinessProbe, c.LivenessProbe, c.StartupProbe = nil, nil, nil, nil
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: eventVolume, MountPath: eventDir, ReadOnly: true})
	}
	return template
}

// RunTimeoutSeconds is the longest that one attempt may take.
func RunTimeoutSeconds(j *v1alpha1.FunctionJob, fn *v1alpha1.Function) int32 {
	return ptr.Deref(j.Spec.TimeoutSeconds, timeoutSeconds(fn))
}

// RunLabels are the labels of everything that is made for a run. The owner is the FunctionJob, not the Function.
func RunLabels(j *v1alpha1.FunctionJob, runID int64) map[string]string {
	labels := RunLabelsOf(string(j.UID), runID)
	labels[v1alpha1.LabelFunction] = j.Spec.FunctionRef.Name
	return labels
}

// RunLabelsOf select what was made for one run of a FunctionJob.
func RunLabelsOf(ownerUID string, runID int64) map[string]string {
	labels := RunOwnerLabels(ownerUID)
	labels[v1alpha1.LabelRunID] = strconv.FormatInt(runID, 10)
	return labels
}

// RunOwnerLabels select what was made for all runs of a FunctionJob.
func RunOwnerLabels(ownerUID string) map[string]string {
	return map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless,
		v1alpha1.LabelOwnerUID:  ownerUID,
		componentLabel:          ComponentRun,
	}
}

// RunAnnotations lead from an object back to its FunctionJob.
func RunAnnotations(j *v1alpha1.FunctionJob) map[string]string {
	return map[string]string{v1alpha1.AnnotationFunctionJob: j.Namespace + "/" + j.Name}
}

// RunEvent builds the Secret with the event of a run. A run has one, whose name is known before its content. As long as the
// run has not ended it tells that the run was begun, and with which Function.
func RunEvent(j *v1alpha1.FunctionJob, functionUID string) *corev1.Secret {
	event := []byte(noEvent)
	if j.Spec.Event != nil && len(j.Spec.Event.Raw) > 0 {
		event = j.Spec.Event.Raw
	}
	meta := runInputMeta(j, eventFile)
	meta.Annotations[v1alpha1.AnnotationFunctionUID] = functionUID
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Immutable:  new(true),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{eventFile: event},
	}
}

// RunEventName is the name of the Secret with the event of a run.
func RunEventName(j *v1alpha1.FunctionJob, runID int64) string {
	return naming.RunInput(naming.Run(j.Name, string(j.UID), runID), eventFile)
}

// RunMirror builds a run's own copy of what the Function refers to. The Function's copies go when it gets others; those of
// a run stay as long as it may try again.
func RunMirror(j *v1alpha1.FunctionJob, fn *v1alpha1.Function, source Source, data map[string][]byte) client.Object {
	mirror := Mirror(fn, source, data)
	meta := runInputMeta(j, mirror.GetName())
	mirror.SetName(meta.Name)
	mirror.SetLabels(meta.Labels)
	mirror.SetAnnotations(meta.Annotations)
	return mirror
}

func runInputMeta(j *v1alpha1.FunctionJob, content ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        naming.RunInput(naming.Run(j.Name, string(j.UID), j.Spec.RunID), content...),
		Namespace:   naming.DeployNamespace(j.Namespace),
		Labels:      RunLabels(j, j.Spec.RunID),
		Annotations: RunAnnotations(j),
	}
}
