// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/internal/testutil"
)

// pausedWebhooks are the configurations while they are not in force.
type pausedWebhooks struct {
	mutating   admissionv1.MutatingWebhookConfigurationList
	validating admissionv1.ValidatingWebhookConfigurationList
}

// refusesPerl tells whether the API server asks the webhooks. It reads its configurations from a cache.
func refusesPerl(ctx context.Context) func() bool {
	return func() bool {
		broken := testutil.MakeFunction("probe", "default").Runtime("perl").File("handler.py", "").Obj()
		return k8sClient.Create(ctx, broken, client.DryRunAll) != nil
	}
}

func pauseWebhooks(ctx context.Context) *pausedWebhooks {
	GinkgoHelper()
	p := &pausedWebhooks{}
	Expect(k8sClient.List(ctx, &p.mutating)).To(Succeed())
	Expect(k8sClient.List(ctx, &p.validating)).To(Succeed())
	for i := range p.mutating.Items {
		Expect(k8sClient.Delete(ctx, &p.mutating.Items[i])).To(Succeed())
	}
	for i := range p.validating.Items {
		Expect(k8sClient.Delete(ctx, &p.validating.Items[i])).To(Succeed())
	}
	Eventually(refusesPerl(ctx)).Should(BeFalse())
	return p
}

func (p *pausedWebhooks) resume(ctx context.Context) {
	GinkgoHelper()
	for i := range p.mutating.Items {
		p.mutating.Items[i].ResourceVersion = ""
		Expect(k8sClient.Create(ctx, &p.mutating.Items[i])).To(Succeed())
	}
	for i := range p.validating.Items {
		p.validating.Items[i].ResourceVersion = ""
		Expect(k8sClient.Create(ctx, &p.validating.Items[i])).To(Succeed())
	}
	Eventually(refusesPerl(ctx)).Should(BeTrue())
	warnings.take()
}
