// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

func TestSettled(t *testing.T) {
	t.Parallel()
	deployment := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2, Labels: map[string]string{v1alpha1.LabelRevision: revision}}}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		}}
		if change != nil {
			change(d)
		}
		return d
	}
	progressing := func(status corev1.ConditionStatus, reason string) *appsv1.Deployment {
		return deployment(func(d *appsv1.Deployment) {
			d.Status.Conditions[1].Status, d.Status.Conditions[1].Reason = status, reason
		})
	}
	tests := map[string]struct {
		d    *appsv1.Deployment
		want bool
	}{
		"none":                       {},
		"has run, none is ready":     {d: deployment(nil), want: true},
		"has run, is at zero":        {d: deployment(func(d *appsv1.Deployment) { d.Status.Replicas, d.Status.UpdatedReplicas = 0, 0 }), want: true},
		"rolls":                      {d: progressing(corev1.ConditionTrue, "ReplicaSetUpdated")},
		"hangs":                      {d: progressing(corev1.ConditionFalse, "ProgressDeadlineExceeded")},
		"an old replica still runs":  {d: deployment(func(d *appsv1.Deployment) { d.Status.Replicas = 3 })},
		"not observed yet":           {d: deployment(func(d *appsv1.Deployment) { d.Generation = 3 })},
		"another revision":           {d: deployment(func(d *appsv1.Deployment) { d.Labels[v1alpha1.LabelRevision] = "r0" })},
		"nothing is known of it yet": {d: deployment(func(d *appsv1.Deployment) { d.Status.Conditions = nil })},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Settled(tc.d, revision); got != tc.want {
				t.Errorf("Settled = %v, want %v", got, tc.want)
			}
		})
	}
}
