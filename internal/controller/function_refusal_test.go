// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

var _ = Describe("A build that gets no pod", Serial, func() {
	It("is taken back and tells why, stands in nobody's way, and goes on when the user asks", func(ctx SpecContext) {
		node := func(name, dependency string) *v1alpha1.Function {
			return testutil.MakeFunction(name, newNamespace(ctx)).Runtime("nodejs20").File("handler.js", "exports.handle = () => 1").
				File("package.json", `{"dependencies":{"`+dependency+`":"1.0.0"}}`).Obj()
		}
		suspended := func(ctx context.Context, fn *v1alpha1.Function) func() string {
			return func() string {
				jobs := &batchv1.JobList{}
				Expect(k8sClient.List(ctx, jobs, client.InNamespace("sless-builds"),
					client.MatchingLabels{v1alpha1.LabelOwnerUID: string(fn.UID)})).To(Succeed())
				if len(jobs.Items) != 1 {
					return "no build"
				}
				if ptr.Deref(jobs.Items[0].Spec.Suspend, false) {
					return "suspended"
				}
				return "started"
			}
		}
		By("refusing the pod")
		fn := node("starved", "starved")
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		Eventually(suspended(ctx, fn)).Should(Equal("started"))
		jobs := &batchv1.JobList{}
		Expect(k8sClient.List(ctx, jobs, client.InNamespace("sless-builds"),
			client.MatchingLabels{v1alpha1.LabelOwnerUID: string(fn.UID)})).To(Succeed())
		refuse(ctx, &jobs.Items[0], `Error creating: pods "build-x" is forbidden: exceeded quota: small`)
		readyIs(ctx, fn, "False/QuotaExceeded")
		built := meta.FindStatusCondition(get(ctx, fn).Status.Conditions, v1alpha1.ConditionBuilt)
		Expect(built.Message).To(ContainSubstring(`pods "build-x" is forbidden: exceeded quota: small`))
		Expect(meta.IsStatusConditionTrue(get(ctx, fn).Status.Conditions, "Reconciling")).To(BeTrue())
		Eventually(suspended(ctx, fn)).Should(Equal("suspended"))

		By("building for somebody else meanwhile")
		other := node("other", "well-fed")
		Expect(k8sClient.Create(ctx, other)).To(Succeed())
		Eventually(suspended(ctx, other)).Should(Equal("started"))
		Expect(k8sClient.Delete(ctx, other)).To(Succeed())

		By("asking for it, once there is room")
		Expect(k8sClient.DeleteAllOf(ctx, &corev1.Event{}, client.InNamespace("sless-builds"))).To(Succeed())
		change(ctx, fn, func(f *v1alpha1.Function) {
			metav1.SetMetaDataAnnotation(&f.ObjectMeta, v1alpha1.AnnotationReconcileAt, "now")
		})
		Eventually(suspended(ctx, fn)).Should(Equal("started"))
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
	})
})
