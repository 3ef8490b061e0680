// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
	"github.com/naeel/sless/runtimes"
)

// BenchmarkWebhooks measures what one answer about a changed Function costs, without a network. Nearly all of it is reading
// JSON, which holds the old and the new code.
func BenchmarkWebhooks(b *testing.B) {
	catalogue, err := runtimes.Load()
	if err != nil {
		b.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		b.Fatal(err)
	}
	hooks := map[string]http.Handler{
		"default":  functionDefaulting(scheme, catalogue),
		"validate": admission.WithValidator(scheme, &FunctionValidator{Catalogue: catalogue, Clock: clock.RealClock{}}),
	}
	for _, kib := range []int{1, 32, 512} {
		code := strings.Repeat("# 16 characters\n", (kib<<10-64)/16)
		old := testutil.MakeFunction("f", "n").File("handler.py", code).Obj()
		changed := old.DeepCopy()
		changed.Spec.TimeoutSeconds = 30
		body := reviewOf(b, old, changed)
		for name, hook := range hooks {
			b.Run(fmt.Sprintf("%s/%dKiB", name, kib), func(b *testing.B) {
				for b.Loop() {
					ask(b, hook, body)
				}
			})
		}
	}
}

func reviewOf(b *testing.B, old, changed *v1alpha1.Function) []byte {
	b.Helper()
	raw := func(fn *v1alpha1.Function) runtime.RawExtension {
		data, err := json.Marshal(fn)
		if err != nil {
			b.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Update, Object: raw(changed), OldObject: raw(old),
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	return body
}

func ask(b *testing.B, hook http.Handler, body []byte) {
	req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	hook.ServeHTTP(answer, req)
	if answer.Code != http.StatusOK || !bytes.Contains(answer.Body.Bytes(), []byte(`"allowed":true`)) {
		b.Errorf("status %d: %s", answer.Code, answer.Body)
	}
}
