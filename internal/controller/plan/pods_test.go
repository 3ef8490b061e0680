// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

const revision = "r1"

type podOption func(*corev1.Pod)

func makePod(options ...podOption) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRevision: revision}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: resources.ContainerName}}
	for _, option := range options {
		option(&pod)
	}
	return pod
}

func waitingFor(reason, message string) podOption {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
}

func crashed(exit int32, reason, message string) podOption {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: exit, Reason: reason, Message: message,
		}
	}
}

func isReady(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
}

func ofRevision(r string) podOption {
	return func(p *corev1.Pod) { p.Labels[v1alpha1.LabelRevision] = r }
}

func TestPodFault(t *testing.T) {
	t.Parallel()
	const loadError = "HandlerLoadFailed: handler.py line 3: NameError: name 'x' is not defined"
	tests := map[string]struct {
		pods []corev1.Pod
		want *Fault
	}{
		"none":        {},
		"starting":    {pods: []corev1.Pod{makePod(waitingFor("ContainerCreating", ""))}},
		"of old":      {pods: []corev1.Pod{makePod(ofRevision("r0"), crashed(1, "Error", loadError))}},
		"ready again": {pods: []corev1.Pod{makePod(isReady, crashed(1, "Error", loadError))}},
		"being removed": {pods: []corev1.Pod{makePod(crashed(1, "Error", loadError), func(p *corev1.Pod) {
			p.DeletionTimestamp = new(metav1.NewTime(epoch))
		})}},
		"handler does not load": {
			pods: []corev1.Pod{makePod(waitingFor("CrashLoopBackOff", "back-off"), crashed(1, "Error", loadError))},
			want: &Fault{Reason: v1alpha1.ReasonHandlerLoadFailed, Message: "handler.py line 3: NameError: name 'x' is not defined", User: true},
		},
		"second pod is the bad one": {
			pods: []corev1.Pod{makePod(isReady), makePod(crashed(1, "Error", loadError))},
			want: &Fault{Reason: v1alpha1.ReasonHandlerLoadFailed, Message: "handler.py line 3: NameError: name 'x' is not defined", User: true},
		},
		"out of memory": {
			pods: []corev1.Pod{makePod(crashed(137, "OOMKilled", ""))},
			want: &Fault{Reason: v1alpha1.ReasonOOMKilled, User: true,
				Message: "the function used more memory than resources.limits.memory allows; raise the limit"},
		},
		"silent crash": {
			pods: []corev1.Pod{makePod(crashed(3, "Error", ""))},
			want: &Fault{Reason: v1alpha1.ReasonHandlerCrashed, Message: "the function's process ended with exit code 3", User: true},
		},
		"log tail that looks like a reason": {
			pods: []corev1.Pod{makePod(crashed(2, "Error", "panic: boom"))},
			want: &Fault{Reason: v1alpha1.ReasonHandlerCrashed, Message: "panic: boom", User: true},
		},
		"image": {
			pods: []corev1.Pod{makePod(waitingFor("ImagePullBackOff", "not found"))},
			want: &Fault{Reason: v1alpha1.ReasonImagePullFailed, Message: "not found"},
		},
		"missing secret": {
			pods: []corev1.Pod{makePod(waitingFor("CreateContainerConfigError", `secret "db" not found`))},
			want: &Fault{Reason: v1alpha1.ReasonConfigMissing, Message: `secret "db" not found`, User: true},
		},
		"image without a command": {
			pods: []corev1.Pod{makePod(waitingFor("CreateContainerError", "no command specified"))},
			want: &Fault{Reason: v1alpha1.ReasonContainerRefused, Message: "the node cannot make the container: no command specified"},
		},
		"no node": {
			pods: []corev1.Pod{makePod(func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
					Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available"}}
			})},
			want: &Fault{Reason: v1alpha1.ReasonUnschedulable, Message: "no node takes the pod: 0/1 nodes are available"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, PodFault(tc.pods, revision)); diff != "" {
				t.Errorf("PodFault (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodFaultIsTheSameInEveryOrder(t *testing.T) {
	t.Parallel()
	at := func(name string, seconds int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Name, p.CreationTimestamp = name, metav1.NewTime(epoch.Add(time.Duration(seconds)*time.Second))
		}
	}
	first := makePod(at("b", 0), crashed(1, "Error", "HandlerLoadFailed: first"))
	second := makePod(at("a", 1), crashed(137, "OOMKilled", ""))
	third := makePod(at("c", 1), crashed(1, "Error", "HandlerLoadFailed: third"))
	for name, pods := range map[string][]corev1.Pod{
		"by age": {first, second, third}, "backwards": {third, second, first}, "mixed": {second, first, third},
	} {
		given := slices.Clone(pods)
		if fault := PodFault(pods, revision); fault == nil || fault.Message != "first" {
			t.Errorf("%s: the fault is %+v, not that of the oldest pod", name, fault)
		}
		if diff := cmp.Diff(given, pods); diff != "" {
			t.Errorf("%s: the pods of the cache were moved:\n%s", name, diff)
		}
	}
}

func TestTruncateKeepsTextValid(t *testing.T) {
	t.Parallel()
	got := truncate(strings.Repeat("ä", maxMessage))
	if !utf8.ValidString(got) || len(got) > maxMessage+len(" …") {
		t.Errorf("truncate gives %d bytes, valid: %v", len(got), utf8.ValidString(got))
	}
	if got := truncate("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("truncate keeps invalid bytes: %q", got)
	}
}

func TestRolledOut(t *testing.T) {
	t.Parallel()
	deployment := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2, Labels: map[string]string{v1alpha1.LabelRevision: revision}}}
		d.Spec.Replicas = ptr.To[int32](2)
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}
		if change != nil {
			change(d)
		}
		return d
	}
	tests := map[string]struct {
		d    *appsv1.Deployment
		want bool
	}{
		"none":                  {},
		"all there":             {d: deployment(nil), want: true},
		"other revision":        {d: deployment(func(d *appsv1.Deployment) { d.Labels[v1alpha1.LabelRevision] = "r0" })},
		"not observed yet":      {d: deployment(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 1 })},
		"one not updated":       {d: deployment(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 })},
		"one not available":     {d: deployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 })},
		"an old one still runs": {d: deployment(func(d *appsv1.Deployment) { d.Status.Replicas = 3 })},
		"none wanted, none there": {want: true, d: deployment(func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Status = ptr.To[int32](0), appsv1.DeploymentStatus{ObservedGeneration: 2}
		})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := RolledOut(tc.d, revision); got != tc.want {
				t.Errorf("RolledOut = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestReplicaFailure(t *testing.T) {
	t.Parallel()
	refused := func(message string) *appsv1.Deployment {
		return &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: message},
		}}}
	}
	tests := map[string]struct {
		d    *appsv1.Deployment
		want *Fault
	}{
		"none":       {},
		"all well":   {d: &appsv1.Deployment{}},
		"quota":      {d: refused("forbidden: exceeded quota: q"), want: &Fault{Reason: v1alpha1.ReasonQuotaExceeded, Message: "forbidden: exceeded quota: q"}},
		"limitrange": {d: refused("maximum memory usage is 1Gi"), want: &Fault{Reason: v1alpha1.ReasonPodsRefused, Message: "maximum memory usage is 1Gi"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, ReplicaFailure(tc.d)); diff != "" {
				t.Errorf("ReplicaFailure (-want +got):\n%s", diff)
			}
		})
	}
}
