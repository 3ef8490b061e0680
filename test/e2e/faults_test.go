//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

var _ = Describe("A mistake of the user", func() {
	DescribeTable("ends in a condition that says what to do, and the old version goes on answering",
		func(ctx SpecContext, mutate func(*v1alpha1.Function), want, message string) {
			fn := python(newNamespace(ctx), "mistake", v1)
			create(ctx, fn)
			change(ctx, fn, mutate)
			Eventually(ready(ctx, fn)).WithTimeout(buildEnd).Should(Equal(want))
			Expect(condition(ctx, fn, v1alpha1.ConditionReady).Message).To(ContainSubstring(message))
			Eventually(func() metav1.ConditionStatus {
				return condition(ctx, fn, v1alpha1.ConditionStalled).Status
			}).Should(Equal(metav1.ConditionTrue))
			Expect(get(ctx, fn).Body).To(Equal("one"))
		},
		Entry("missing function", func(f *v1alpha1.Function) { f.Spec.Entrypoint = "handler.other" },
			"False/HandlerLoadFailed", "other"),
		Entry("syntax error", func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.py"] = "\n\ndef handle(:\n" },
			"False/HandlerLoadFailed", "handler.py line 3"),
		Entry("broken package.json", func(f *v1alpha1.Function) {
			f.Spec.Runtime = "nodejs20"
			f.Spec.Source.Inline.Files = map[string]string{"handler.js": "exports.handle = () => 1", "package.json": "{"}
		}, "False/DependencyManifestInvalid", "package.json"),
		Entry("a package that does not exist", func(f *v1alpha1.Function) {
			f.Spec.Runtime = "nodejs20"
			f.Spec.Source.Inline.Files = map[string]string{
				"handler.js":   "exports.handle = () => 1",
				"package.json": `{"dependencies":{"slugify":"99.99.99"}}`,
			}
		}, "False/BuildFailed", "slugify"),
		Entry("a Secret that does not exist", func(f *v1alpha1.Function) {
			f.Spec.Resources.Limits = nil
			f.Spec.Env = append(f.Spec.Env, missingSecretEnv())
		}, "False/ConfigMissing", "no-such-secret"),
	)

	It("is told apart from an exception and a wrong result, which only the caller sees", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "throws", strings.Join([]string{
			"def handle(event, context):",
			"    if event.get('how') == 'raise':",
			"        raise ValueError('no luck')",
			"    if event.get('how') == 'set':",
			"        return {1, 2}",
			"    return 'fine'",
		}, "\n"))
		create(ctx, fn)
		raised := call(ctx, fn, http.MethodGet, "?how=raise", nil)
		Expect(raised.Status).To(Equal(http.StatusInternalServerError))
		Expect(raised.Body).To(And(ContainSubstring("ValueError"), ContainSubstring("no luck")))
		Expect(raised.Header.Get("X-Request-Id")).NotTo(BeEmpty())
		wrong := call(ctx, fn, http.MethodGet, "?how=set", nil)
		Expect(wrong.Status).To(Equal(http.StatusInternalServerError))
		Expect(wrong.Body).To(ContainSubstring("set"))
		Expect(get(ctx, fn).Body).To(Equal("fine"))
		Expect(ready(ctx, fn)()).To(Equal("True/Ready"))
	})
})

var _ = Describe("A fault of the platform", Serial, func() {
	for _, part := range []struct{ service, reason string }{
		{"registry", v1alpha1.ReasonRegistryUnavailable},
		{"s3", v1alpha1.ReasonStoreUnavailable},
	} {
		It("("+part.service+" down) is waited for: the old version answers, then the new one comes by itself", func(ctx SpecContext) {
			fn := python(newNamespace(ctx), "patient", v1)
			create(ctx, fn)
			mend := cut(ctx, part.service)
			// Connections that are open already would go on working.
			restartManager(ctx)
			changeCode(ctx, fn, "handler.py", strings.ReplaceAll(v1, "one", "two"))
			Eventually(ready(ctx, fn)).Should(Equal("False/" + part.reason))
			Expect(condition(ctx, fn, v1alpha1.ConditionReconciling).Status).To(Equal(metav1.ConditionTrue))
			Expect(get(ctx, fn).Body).To(Equal("one"))
			mend()
			waitReady(ctx, fn)
			answers(ctx, fn, "two")
		})
	}

	It("does not keep a function from being deleted", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "leaving", v1)
		create(ctx, fn)
		deployment := deploymentOf(ctx, fn)
		cut(ctx, "registry")
		cut(ctx, "s3")
		Expect(k8s.Delete(ctx, fn)).To(Succeed())
		Eventually(gone(ctx, fn)).Should(BeTrue())
		Eventually(gone(ctx, deployment)).Should(BeTrue())
	})
})
