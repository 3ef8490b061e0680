//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

const buildsNamespace = "sless-builds"

var _ = Describe("A fault of the platform during a build", Serial, func() {
	It("(no quota left for build pods) is told with the API server's words and passes by itself", func(ctx SpecContext) {
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "e2e-no-pods", Namespace: buildsNamespace},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				corev1.ResourcePods: resource.MustParse("0"),
			}},
		}
		Expect(k8s.Create(ctx, quota)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, quota))).To(Succeed()) })
		Eventually(func() int {
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(quota), quota)).To(Succeed())
			return len(quota.Status.Hard)
		}).Should(Equal(1), "the quota must be in force")
		fn := function(newNamespace(ctx), "starved", "nodejs20", map[string]string{
			"package.json": `{"dependencies":{"slugify":"1.6.6"}}`,
			"handler.js":   "exports.handle = () => require('slugify')('got a pod')",
		})
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal("False/QuotaExceeded"))
		built := condition(ctx, fn, v1alpha1.ConditionBuilt)
		Expect(built.Message).To(And(ContainSubstring("exceeded quota: e2e-no-pods"), ContainSubstring("pods=0")))
		Expect(condition(ctx, fn, v1alpha1.ConditionReconciling).Status).To(Equal(metav1.ConditionTrue))
		Expect(k8s.Delete(ctx, quota)).To(Succeed())
		waitReady(ctx, fn)
		answers(ctx, fn, "got-a-pod")
	})
})
