// SPDX-License-Identifier: Apache-2.0

package resources

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// ComponentPreflight marks the Job that tries a version out, and its pod. No Service selects them.
const ComponentPreflight = "preflight"

// preflightCommand is the command of the watchdog that loads the handler and ends.
const preflightCommand = "check"

// PreflightJob builds the Job that loads the handler of a version once, before the Deployment of a Function without
// replicas takes that version over. Its pod is the Deployment's in all but what serves calls. revision is that of the
// Deployment.
func PreflightJob(fn *v1alpha1.Function, opt DeploymentOptions, revision string) *batchv1.Job {
	labels := OwnerLabels(fn, ComponentPreflight)
	annotations := OwnerAnnotations(fn)
	if at := fn.Annotations[v1alpha1.AnnotationReconcileAt]; at != "" {
		annotations[v1alpha1.AnnotationReconcileAt] = at
	}
	jobLabels := OwnerLabels(fn, ComponentPreflight)
	jobLabels[v1alpha1.LabelRevision] = revision
	template := podTemplate(fn, opt)
	template.Labels = labels
	template.Annotations = OwnerAnnotations(fn)
	spec := &template.Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.TerminationGracePeriodSeconds = ptr.To[int64](drainGraceSeconds)
	container := &spec.Containers[0]
	container.Args[0] = preflightCommand
	container.Ports, container.ReadinessProbe, container.LivenessProbe = nil, nil, nil
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: naming.PreflightJob(revision), Namespace: naming.DeployNamespace(fn.Namespace),
			Labels: jobLabels, Annotations: annotations,
		},
		Spec: batchv1.JobSpec{BackoffLimit: ptr.To[int32](0), Template: template},
	}
}
