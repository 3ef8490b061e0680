//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// maxAnswer bounds what a story reads of an answer.
const maxAnswer = 8 << 20

func python(namespace, name, code string) *v1alpha1.Function {
	return function(namespace, name, "python3.11", map[string]string{"handler.py": code})
}

func function(namespace, name, runtime string, files map[string]string) *v1alpha1.Function {
	return &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.FunctionSpec{
			Runtime: runtime,
			Source:  v1alpha1.FunctionSource{Inline: &v1alpha1.InlineSource{Files: files}},
		},
	}
}

// create creates a Function and waits until it is ready.
func create(ctx context.Context, fn *v1alpha1.Function) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, fn)).To(Succeed())
	waitReady(ctx, fn)
}

func current(ctx context.Context, fn *v1alpha1.Function) *v1alpha1.Function {
	GinkgoHelper()
	now := &v1alpha1.Function{}
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(fn), now)).To(Succeed())
	return now
}

// ready returns the Ready condition as "Status/Reason", once it speaks of the current spec.
func ready(ctx context.Context, fn *v1alpha1.Function) func() string {
	return func() string {
		c := condition(ctx, fn, v1alpha1.ConditionReady)
		return string(c.Status) + "/" + c.Reason
	}
}

func condition(ctx context.Context, fn *v1alpha1.Function, kind string) metav1.Condition {
	now := &v1alpha1.Function{}
	if err := k8s.Get(ctx, client.ObjectKeyFromObject(fn), now); err != nil {
		return metav1.Condition{Reason: err.Error()}
	}
	c := meta.FindStatusCondition(now.Status.Conditions, kind)
	if c == nil || c.ObservedGeneration != now.Generation {
		return metav1.Condition{Reason: "not looked at yet"}
	}
	return *c
}

func waitReady(ctx context.Context, fn *v1alpha1.Function) {
	GinkgoHelper()
	Eventually(ready(ctx, fn)).WithTimeout(buildEnd).Should(Equal("True/Ready"))
}

// change is a user's next apply.
func change(ctx context.Context, fn *v1alpha1.Function, mutate func(*v1alpha1.Function)) {
	GinkgoHelper()
	now := current(ctx, fn)
	base := now.DeepCopy()
	mutate(now)
	Expect(k8s.Patch(ctx, now, client.MergeFrom(base))).To(Succeed())
}

func changeCode(ctx context.Context, fn *v1alpha1.Function, file, code string) {
	GinkgoHelper()
	change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files[file] = code })
}

// answer is what a caller sees.
type answer struct {
	Status int
	Body   string
	Header http.Header
}

type callOption func(*http.Request)

func contentType(value string) callOption {
	return func(r *http.Request) { r.Header.Set("Content-Type", value) }
}

// call calls the Function at its URL with a path after it.
func call(ctx context.Context, fn *v1alpha1.Function, method, path string, body []byte, options ...callOption) answer {
	GinkgoHelper()
	return callBody(ctx, current(ctx, fn).Status.URL+path, method, body, options...)
}

func callURL(ctx context.Context, url, method string, options ...callOption) answer {
	GinkgoHelper()
	return callBody(ctx, url, method, nil, options...)
}

func callBody(ctx context.Context, url, method string, body []byte, options ...callOption) answer {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	for _, option := range options {
		option(req)
	}
	resp, err := http.DefaultClient.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	Expect(err).NotTo(HaveOccurred())
	return answer{Status: resp.StatusCode, Body: string(data), Header: resp.Header}
}

func get(ctx context.Context, fn *v1alpha1.Function) answer {
	GinkgoHelper()
	return call(ctx, fn, http.MethodGet, "", nil)
}

// answers waits until a call answers with the text. Pods of the old version may answer a moment longer than the new one is
// ready.
func answers(ctx context.Context, fn *v1alpha1.Function, want string) {
	GinkgoHelper()
	Eventually(func() string { return get(ctx, fn).Body }).Should(Equal(want))
}

func deploymentOf(ctx context.Context, fn *v1alpha1.Function) *appsv1.Deployment {
	GinkgoHelper()
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: naming.DeployNamespace(fn.Namespace), Name: fn.Name}
	Expect(k8s.Get(ctx, key, d)).To(Succeed())
	return d
}

// cut takes a Service of the platform off the network until the story ends: nothing answers at its address.
func cut(ctx context.Context, name string) (mend func()) {
	GinkgoHelper()
	key := client.ObjectKey{Namespace: "sless-demo", Name: name}
	set := func(ctx context.Context, selector map[string]string) map[string]string {
		service := &corev1.Service{}
		Expect(k8s.Get(ctx, key, service)).To(Succeed())
		base, old := service.DeepCopy(), service.Spec.Selector
		service.Spec.Selector = selector
		Expect(k8s.Patch(ctx, service, client.MergeFrom(base))).To(Succeed())
		return old
	}
	old := set(ctx, map[string]string{"nobody": "answers"})
	mended := false
	mend = func() {
		if !mended {
			mended = true
			set(context.Background(), old)
		}
	}
	DeferCleanup(func() { mend() })
	return mend
}

func gone(ctx context.Context, obj client.Object) func() bool {
	return func() bool { return apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(obj), obj)) }
}
