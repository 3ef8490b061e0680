//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	managerKey = client.ObjectKey{Namespace: "sless-system", Name: "sless-controller-manager"}
	// leaderKey is the Lease of the manager that works.
	leaderKey = client.ObjectKey{Namespace: managerKey.Namespace, Name: "manager.sless.io"}
)

func managers(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(k8s.List(ctx, pods, client.InNamespace(managerKey.Namespace),
		client.MatchingLabels{"control-plane": "controller-manager"})).To(Succeed())
	return pods.Items
}

// scaleManager sets the number of managers and waits until so many are there, and no other.
func scaleManager(ctx context.Context, replicas int32) {
	GinkgoHelper()
	manager := &appsv1.Deployment{}
	Expect(k8s.Get(ctx, managerKey, manager)).To(Succeed())
	base := manager.DeepCopy()
	manager.Spec.Replicas = new(replicas)
	Expect(k8s.Patch(ctx, manager, client.MergeFrom(base))).To(Succeed())
	waitManagers(ctx, replicas)
}

// waitManagers waits until so many managers are ready, and no other is there: one that is on its way out still leads for a
// while. The webhooks of one that is ready answer; waitLeader tells when it works.
func waitManagers(ctx context.Context, replicas int32) {
	GinkgoHelper()
	Eventually(func() bool {
		pods := managers(ctx)
		for i := range pods {
			if !podReady(&pods[i]) || pods[i].DeletionTimestamp != nil {
				return false
			}
		}
		return len(pods) == int(replicas)
	}).Should(BeTrue())
}

// waitLeader waits until one of the managers that are there leads. After a manager was killed that takes as long as its
// lease holds.
func waitLeader(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() bool {
		name := leader(ctx)
		return slices.ContainsFunc(managers(ctx), func(pod corev1.Pod) bool {
			return pod.Name == name && pod.DeletionTimestamp == nil
		})
	}).Should(BeTrue())
}

// leader is the name of the manager's pod that leads, or that was the last to do so.
func leader(ctx context.Context) string {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(k8s.Get(ctx, leaderKey, lease)).To(Succeed())
	name, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	return name
}

// stopManager takes all managers down until the story ends.
func stopManager(ctx context.Context) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) { scaleManager(ctx, 1) })
	scaleManager(ctx, 0)
}

// rollManager replaces the managers as an upgrade does, and waits until it is through.
func rollManager(ctx context.Context) {
	GinkgoHelper()
	manager := &appsv1.Deployment{}
	Expect(k8s.Get(ctx, managerKey, manager)).To(Succeed())
	Expect(k8s.Patch(ctx, manager, mergePatch(fmt.Sprintf(
		`{"spec":{"template":{"metadata":{"annotations":{"e2e/rolled-at":%q}}}}}`, time.Now().Format(time.RFC3339Nano))))).To(Succeed())
	Eventually(func() bool {
		now := &appsv1.Deployment{}
		Expect(k8s.Get(ctx, managerKey, now)).To(Succeed())
		s := now.Status
		return s.ObservedGeneration >= manager.Generation && s.UpdatedReplicas == s.Replicas && s.AvailableReplicas == s.Replicas
	}).Should(BeTrue())
	scaleManager(ctx, 1) // also waits until the old one is gone
}

// restartManager replaces the manager's pod and waits until the new one is ready. The old one goes on for some seconds, so
// that the webhooks answer without a break.
func restartManager(ctx context.Context) {
	GinkgoHelper()
	pods := managers(ctx)
	for i := range pods {
		Expect(k8s.Delete(ctx, &pods[i])).To(Succeed())
	}
	waitManagers(ctx, 1)
}

// killManager kills the manager that leads without a word, as a node that dies does.
func killManager(ctx context.Context) {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: leader(ctx), Namespace: managerKey.Namespace}}
	Expect(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
