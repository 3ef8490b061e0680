// SPDX-License-Identifier: Apache-2.0

package controller

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/testutil"
)

var _ = Describe("The operator's Secret for pulling images", Serial, func() {
	It("is copied to where functions run, and the copy follows it", func(ctx SpecContext) {
		fn := testutil.MakeFunction("pulls", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		d := rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		Expect(d.Spec.Template.Spec.ImagePullSecrets).To(ConsistOf(corev1.LocalObjectReference{Name: resources.PullSecretName}))
		mirror := &corev1.Secret{}
		key := client.ObjectKey{Namespace: naming.DeployNamespace(fn.Namespace), Name: resources.PullSecretName}
		login := func() string {
			if err := k8sClient.Get(ctx, key, mirror); err != nil {
				return err.Error()
			}
			return string(mirror.Data[corev1.DockerConfigJsonKey])
		}
		Expect(login()).To(Equal(`{"auths":{}}`))
		Expect(mirror.Type).To(Equal(corev1.SecretTypeDockerConfigJson))

		By("changing the password, which rolls nothing")
		generation := deploymentOf(ctx, fn).Generation
		source := pullSecret()
		DeferCleanup(func(ctx SpecContext) {
			old := pullSecret()
			Expect(client.IgnoreAlreadyExists(k8sClient.Create(ctx, old))).To(Succeed())
			Expect(k8sClient.Update(ctx, pullSecret())).To(Succeed())
		})
		source.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{"registry.example.com":{"auth":"bmV3"}}}`)
		Expect(k8sClient.Update(ctx, source)).To(Succeed())
		Eventually(login).Should(ContainSubstring("bmV3"))

		By("deleting the copy")
		Expect(k8sClient.Delete(ctx, mirror)).To(Succeed())
		Eventually(login).Should(ContainSubstring("bmV3"))
		Expect(deploymentOf(ctx, fn).Generation).To(Equal(generation))

		By("deleting the operator's, which is told")
		Expect(k8sClient.Delete(ctx, source)).To(Succeed())
		readyIs(ctx, fn, "False/ConfigMissing")
		Expect(conditionOf(ctx, fn, "Available")()).To(Equal("True/Ready"))
		Expect(k8sClient.Create(ctx, pullSecret())).To(Succeed())
		readyIs(ctx, fn, "True/Ready")

		By("deleting all functions but one, and then the last one")
		other := testutil.MakeFunction("pulls-too", fn.Namespace).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, other)).To(Succeed())
		rollOut(ctx, other)
		readyIs(ctx, other, "True/Ready")
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
		Eventually(func() error { return k8sClient.Get(ctx, client.ObjectKeyFromObject(fn), fn) }).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Consistently(login, "1s").Should(Equal(`{"auths":{}}`))
		Expect(k8sClient.Delete(ctx, other)).To(Succeed())
		Eventually(login).Should(ContainSubstring("not found"))
	})
})
