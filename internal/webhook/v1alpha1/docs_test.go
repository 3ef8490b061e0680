// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/internal/testutil"
)

// notYet are the documents that show what is only planned.
const notYet = "queue-triggers.md"

var _ = Describe("The examples of the documents", func() {
	It("are taken as they are", func(ctx SpecContext) {
		examples, err := testutil.DocExamples()
		Expect(err).NotTo(HaveOccurred())
		tried := map[string]int{}
		for _, example := range examples {
			obj := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(example.YAML), &obj.Object)).To(Or(Succeed(), MatchError(ContainSubstring("cannot unmarshal"))),
				example.Where)
			_, isSpec := obj.Object["spec"]
			switch {
			case strings.HasPrefix(example.Where, notYet):
				continue
			case isSpec && len(obj.Object) == 1:
				completeFunction(obj)
			case obj.GroupVersionKind().Group != "sless.io":
				continue
			}
			obj.SetNamespace("default")
			By(example.Where)
			err := k8sClient.Create(ctx, obj, client.DryRunAll, client.FieldValidation("Strict"))
			Expect(err).NotTo(HaveOccurred(), example.Where)
			tried[obj.GetKind()]++
		}
		Expect(tried).To(And(HaveKey("Function"), HaveKey("Trigger"), HaveKey("FunctionJob")))
	})
})

// completeFunction makes a Function of a spec of which only what a text is about is shown.
func completeFunction(obj *unstructured.Unstructured) {
	GinkgoHelper()
	obj.SetAPIVersion("sless.io/v1alpha1")
	obj.SetKind("Function")
	obj.SetName("example")
	for path, value := range map[string]any{
		"runtime":    "nodejs20",
		"entrypoint": "handler.handle",
		"source":     map[string]any{"inline": map[string]any{"files": map[string]any{"handler.js": "exports.handle = () => 1", "package.json": "{}"}}},
	} {
		if _, found, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", path); !found {
			Expect(unstructured.SetNestedField(obj.Object, value, "spec", path)).To(Succeed())
		}
	}
}
