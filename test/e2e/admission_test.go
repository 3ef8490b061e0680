//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

// nightly is a right cron Trigger of a Function that need not exist.
func nightly(namespace, name string) *testutil.TriggerWrapper {
	return testutil.MakeTrigger(name, namespace, "hello").Cron("0 3 * * *", "Europe/Berlin")
}

var _ = Describe("A mistake", func() {
	It("is told when it is applied, with the field and the fix, and nothing is stored", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		variable := python(namespace, "hello", v1)
		variable.Spec.Env = []corev1.EnvVar{{Name: "MY VAR", Value: "1"}}
		tooLong := testutil.MakeFunctionJob(strings.Repeat("j", 53), namespace, "hello").Obj()
		for _, tc := range []struct {
			obj   client.Object
			words []string
		}{
			{function(namespace, "hello", "python2", map[string]string{"handler.py": v1}), []string{"spec.runtime", "python3.11"}},
			{function(namespace, "hello", "python3.11", map[string]string{"main.py": v1}), []string{"spec.entrypoint", "handler"}},
			{variable, []string{"spec.env[MY VAR].name", "such as GREETING"}},
			{nightly(namespace, "t").Cron("61 * * * *", "").Obj(), []string{"spec.cron.schedule", "minute hour day month weekday"}},
			{nightly(namespace, "t").Cron("@daily", "Berlin").Obj(), []string{"spec.cron.timeZone", "Europe/Berlin"}},
			{tooLong, []string{"metadata.name", "52 characters"}},
		} {
			err := k8s.Create(ctx, tc.obj)
			Expect(err).To(HaveOccurred())
			for _, word := range tc.words {
				Expect(err.Error()).To(ContainSubstring(word))
			}
		}
		functions := &v1alpha1.FunctionList{}
		Expect(k8s.List(ctx, functions, client.InNamespace(namespace))).To(Succeed())
		Expect(functions.Items).To(BeEmpty())
	})

	DescribeTable("in a change is told too, and the version that is there goes on",
		func(ctx SpecContext, mutate func(*v1alpha1.Function), words ...string) {
			fn := python(newNamespace(ctx), "hello", v1)
			create(ctx, fn)
			now := current(ctx, fn)
			before := now.DeepCopy()
			mutate(now)
			err := k8s.Patch(ctx, now, client.MergeFrom(before))
			Expect(err).To(HaveOccurred())
			for _, word := range words {
				Expect(err.Error()).To(ContainSubstring(word))
			}
			Expect(current(ctx, fn).ResourceVersion).To(Equal(before.ResourceVersion))
			answers(ctx, fn, "one")
		},
		Entry("unknown runtime", func(f *v1alpha1.Function) { f.Spec.Runtime = "cobol85" }, "spec.runtime", "nodejs20"),
		Entry("missing entrypoint file", func(f *v1alpha1.Function) { f.Spec.Entrypoint = "main.handle" },
			"spec.entrypoint", "main.py"),
		Entry("source over the limit", func(f *v1alpha1.Function) {
			f.Spec.Source.Inline.Files["large.txt"] = strings.Repeat("x", v1alpha1.MaxInlineSourceBytes)
		}, "spec.source.inline.files", "524288"),
		Entry("a path out of the folder", func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["../evil.py"] = "" },
			"spec.source.inline.files", "../evil.py"),
		Entry("more memory asked for than allowed", func(f *v1alpha1.Function) {
			f.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
			f.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
		}, "spec.resources.requests[memory]", "lower it or raise"),
	)
})

var _ = Describe("A cluster whose sless is down", Serial, func() {
	It("refuses changes with a clear error, can be cleaned up all the same, and comes back with a certificate that lasts", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		fn := python(namespace, "hello", v1)
		create(ctx, fn)
		trigger, job := nightly(namespace, "t").Obj(), testutil.MakeFunctionJob("j", namespace, "hello").Obj()
		Expect(k8s.Create(ctx, trigger)).To(Succeed())
		Expect(k8s.Create(ctx, job)).To(Succeed())
		stopManager(ctx)

		Expect(k8s.Create(ctx, nightly(namespace, "later").Obj())).To(MatchError(And(
			ContainSubstring(`failed calling webhook "vtrigger.sless.io"`), ContainSubstring("sless-webhook-service"))))
		Expect(k8s.Patch(ctx, fn.DeepCopy(), mergePatch(`{"metadata":{"labels":{"team":"a"}}}`))).To(Succeed())
		answers(ctx, fn, "one")

		for _, obj := range []client.Object{fn, trigger, job} {
			Expect(k8s.Delete(ctx, obj)).To(Succeed())
			// Those that take something down first wait for the manager, or for somebody who does not want to.
			err := k8s.Patch(ctx, obj, mergePatch(`{"metadata":{"finalizers":null}}`))
			Expect(client.IgnoreNotFound(err)).To(Succeed())
			Eventually(gone(ctx, obj)).Should(BeTrue())
		}

		By("starting with a certificate that is about to end")
		ending := endingCertificate(ctx)
		scaleManager(ctx, 1)
		Eventually(applies(ctx, namespace)).Should(Succeed())
		replaced := certificateInUse(ctx)
		Expect(replaced).NotTo(Equal(ending))

		By("being given another one while it runs")
		before := managerPods(ctx)
		ending = endingCertificate(ctx)
		Eventually(func() string { return certificateInUse(ctx) }).ShouldNot(BeElementOf(ending, replaced, ""))
		Eventually(func() error { return apply(ctx, namespace) }).Should(Succeed())
		Expect(managerPods(ctx)).To(Equal(before), "no pod may have been started anew")
	})
})

// endingCertificate makes authority and certificate of the webhooks such that they end tomorrow. It returns the authority.
func endingCertificate(ctx context.Context) string {
	GinkgoHelper()
	tomorrow := time.Now().Add(24 * time.Hour)
	secret := &corev1.Secret{}
	Expect(k8s.Get(ctx, certificateKey, secret)).To(Succeed())
	base := secret.DeepCopy()
	secret.Data = testutil.WebhookCertificate(tomorrow, tomorrow, "sless-webhook-service.sless-system.svc")
	Expect(k8s.Patch(ctx, secret, client.MergeFrom(base))).To(Succeed())
	return string(secret.Data["ca.crt"])
}

// certificateInUse returns the authority that the Secret holds and that the API server was told of, or nothing while those
// differ.
func certificateInUse(ctx context.Context) string {
	GinkgoHelper()
	secret, hooks := &corev1.Secret{}, &admissionv1.ValidatingWebhookConfiguration{}
	Expect(k8s.Get(ctx, certificateKey, secret)).To(Succeed())
	Expect(k8s.Get(ctx, client.ObjectKey{Name: "sless-validating-webhook-configuration"}, hooks)).To(Succeed())
	Expect(hooks.Webhooks).NotTo(BeEmpty())
	for _, hook := range hooks.Webhooks {
		if !bytes.Equal(hook.ClientConfig.CABundle, secret.Data["ca.crt"]) {
			return ""
		}
	}
	return string(secret.Data["ca.crt"])
}

// apply has the API server ask the webhooks.
func apply(ctx context.Context, namespace string) error {
	return k8s.Create(ctx, nightly(namespace, "probe").Obj(), client.DryRunAll)
}

// applies is apply for a manager that is ready: the network may not know it yet, but its certificate is in order.
func applies(ctx context.Context, namespace string) func() error {
	return func() error {
		err := apply(ctx, namespace)
		if err != nil && strings.Contains(err.Error(), "x509") {
			return StopTrying("the manager was ready before its certificate").Wrap(err)
		}
		return err
	}
}

// managerPods returns the managers by name, with how often each was started anew.
func managerPods(ctx context.Context) map[string]int32 {
	GinkgoHelper()
	pods := &corev1.PodList{}
	labels := client.MatchingLabels{"control-plane": "controller-manager"}
	Expect(k8s.List(ctx, pods, client.InNamespace(managerKey.Namespace), labels)).To(Succeed())
	restarts := map[string]int32{}
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			restarts[pod.Name] += status.RestartCount
		}
	}
	return restarts
}

func mergePatch(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }

var certificateKey = client.ObjectKey{Namespace: "sless-system", Name: "sless-webhook-certificate"}
