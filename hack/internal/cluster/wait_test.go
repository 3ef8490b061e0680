// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wantProblem compares an error with a part of its text; an empty want means no error.
func wantProblem(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v does not hold %q", err, want)
	}
}

func TestNodeProblem(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 10, 900, time.UTC)
	node := func(status corev1.ConditionStatus, heartbeat time.Time, taints ...string) *corev1.Node {
		n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.NewTime(heartbeat), Message: "no network"},
		}}}
		for _, key := range taints {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key})
		}
		return n
	}
	cases := map[string]struct {
		node *corev1.Node
		want string
	}{
		"ready":                         {node(corev1.ConditionTrue, start.Add(time.Second)), ""},
		"reported in the same second":   {node(corev1.ConditionTrue, start.Truncate(time.Second)), ""},
		"ready before the restart":      {node(corev1.ConditionTrue, start.Add(-time.Minute)), "has not reported since"},
		"not ready":                     {node(corev1.ConditionFalse, start.Add(time.Second)), "no network"},
		"new":                           {&corev1.Node{}, "has not reported yet"},
		"ready with a taint of its own": {node(corev1.ConditionTrue, start.Add(time.Second), "dedicated"), ""},
		"ready and still tainted": {
			node(corev1.ConditionTrue, start.Add(time.Second), corev1.TaintNodeNotReady), "still has the taint",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, nodeProblem(tc.node, start), tc.want)
		})
	}
}

func TestDeploymentProblem(t *testing.T) {
	t.Parallel()
	one := int32(1)
	deployment := func(observed int64, updated, available int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "coredns", Generation: 2},
			Spec:       appsv1.DeploymentSpec{Replicas: &one},
			Status: appsv1.DeploymentStatus{
				ObservedGeneration: observed, UpdatedReplicas: updated, AvailableReplicas: available,
			},
		}
	}
	cases := map[string]struct {
		deployment *appsv1.Deployment
		want       string
	}{
		"available":            {deployment(2, 1, 1), ""},
		"of an old generation": {deployment(1, 1, 1), "deployment coredns"},
		"an old pod only":      {deployment(2, 0, 1), "deployment coredns"},
		"no pod yet":           {deployment(2, 1, 0), "has 0 of 1 pods"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, deploymentProblem(tc.deployment), tc.want)
		})
	}
}

func TestReadyProblem(t *testing.T) {
	t.Parallel()
	failed := errors.New("a long text")
	answer := "[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac failed: x\nreadyz check failed\n"
	cases := map[string]struct {
		answer string
		err    error
		want   string
	}{
		"ready":        {"ok", nil, ""},
		"checks fail":  {answer, failed, "not ready: etcd, poststarthook/rbac"},
		"no answer":    {"", failed, "a long text"},
		"other answer": {"Forbidden", failed, "a long text"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, readyProblem(tc.answer, tc.err), tc.want)
		})
	}
}
