//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// newNamespace makes a user namespace for one story, and removes it and what sless deployed for it at the end. sless itself
// never removes a namespace.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	return storyNamespace(ctx, metav1.ObjectMeta{GenerateName: "e2e-"})
}

// newTenant makes a tenant of the API port for one story, who is known by the subject of the tokens, with the namespace that
// is the tenant's.
func newTenant(ctx context.Context) (subject, namespace string) {
	GinkgoHelper()
	needsThisMachine("the issuer of the tokens")
	subject = "e2e-" + rand.Text()
	return subject, storyNamespace(ctx, metav1.ObjectMeta{Name: naming.TenantNamespace(subject)})
}

func storyNamespace(ctx context.Context, meta metav1.ObjectMeta) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: meta}
	Expect(k8s.Create(ctx, ns)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			describe(ctx, ns.Name)
		}
		removeNamespace(ctx, ns.Name)
	})
	return ns.Name
}

// describe prints what helps to understand a failed story.
func describe(ctx context.Context, namespace string) {
	functions := &v1alpha1.FunctionList{}
	if err := k8s.List(ctx, functions, client.InNamespace(namespace)); err != nil {
		return
	}
	for i := range functions.Items {
		fn := &functions.Items[i]
		_, _ = fmt.Fprintf(GinkgoWriter, "Function %s is %s\n", fn.Name, fn.Status.Phase)
		for _, c := range fn.Status.Conditions {
			_, _ = fmt.Fprintf(GinkgoWriter, "  %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

// removed are the namespaces whose removal this process has begun, and the stories that they were made for.
var removed []struct{ name, story string }

// removeNamespace begins to remove a namespace with everything in it, as a user does who has had enough. Nobody waits for
// it: the suite looks at its end what remains.
func removeNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	for _, kind := range []client.Object{&v1alpha1.Trigger{}, &v1alpha1.FunctionJob{}, &v1alpha1.Function{}} {
		Expect(k8s.DeleteAllOf(ctx, kind, client.InNamespace(name))).To(Succeed())
	}
	for _, ns := range []string{name, naming.DeployNamespace(name)} {
		err := k8s.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		Expect(client.IgnoreNotFound(err)).To(Succeed())
	}
	removed = append(removed, struct{ name, story string }{name, CurrentSpecReport().FullText()})
}

// remains names what is left of a removed namespace: itself, that of its workloads, and what was made for builds.
func remains(ctx context.Context, namespace string) func() []string {
	return func() []string {
		found := []string{}
		for _, name := range []string{namespace, naming.DeployNamespace(namespace)} {
			err := k8s.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
			Expect(client.IgnoreNotFound(err)).To(Succeed())
			if err == nil {
				found = append(found, "namespace "+name)
			}
		}
		list := &metav1.PartialObjectMetadataList{}
		for _, kind := range []metav1.TypeMeta{
			{APIVersion: "batch/v1", Kind: "JobList"}, {APIVersion: "v1", Kind: "PodList"}, {APIVersion: "v1", Kind: "SecretList"},
		} {
			list.TypeMeta = kind
			Expect(k8s.List(ctx, list, client.InNamespace(buildsNamespace))).To(Succeed())
			for i := range list.Items {
				if strings.HasPrefix(list.Items[i].Annotations[v1alpha1.AnnotationOwner], namespace+"/") {
					found = append(found, kind.Kind+" item "+list.Items[i].Name)
				}
			}
		}
		return found
	}
}
