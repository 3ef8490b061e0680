// SPDX-License-Identifier: Apache-2.0

package plan

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
)

// RolledOut tells whether the Deployment runs the revision, all of it and nothing else.
func RolledOut(d *appsv1.Deployment, revision string) bool {
	if d == nil || revision == "" || d.Labels[v1alpha1.LabelRevision] != revision {
		return false
	}
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	return d.Status.ObservedGeneration >= d.Generation &&
		d.Status.UpdatedReplicas >= wanted &&
		d.Status.AvailableReplicas >= wanted &&
		d.Status.Replicas == d.Status.UpdatedReplicas
}

// ReplicaFailure returns why the API server refuses to create pods, such as an exhausted quota, or nil.
func ReplicaFailure(d *appsv1.Deployment) *Fault {
	if d == nil {
		return nil
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return refusedPods(c.Message)
		}
	}
	return nil
}
