//go:build e2e

// SPDX-License-Identifier: Apache-2.0

// Package e2e tells the stories of users on a real cluster with sless on it: real builds, real pods, real calls.
package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/naeel/sless/api/v1alpha1"
)

// How long a story waits for a state. The machine may be slow; no story measures time.
const (
	soon     = 2 * time.Minute
	buildEnd = 10 * time.Minute
	interval = 100 * time.Millisecond
)

var k8s client.Client

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "End-to-end stories")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	logf.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(interval)
	Expect(v1alpha1.AddToScheme(scheme.Scheme)).To(Succeed())
	cfg, err := clientConfig().ClientConfig()
	Expect(err).NotTo(HaveOccurred(), "reading the kubeconfig")
	k8s, err = client.New(cfg, client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error {
		return k8s.List(ctx, &v1alpha1.FunctionList{})
	}).Should(Succeed(), "the cluster must have sless on it")
})

// clientConfig is that of the local cluster, or of the current kubeconfig when SLESS_E2E_CLUSTER says so.
func clientConfig() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if os.Getenv("SLESS_E2E_CLUSTER") != "current" {
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: filepath.Join("..", "..", "bin", "cluster", "kubeconfig")}
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
}

// newNamespace makes a user namespace for one story, and removes it and what sless deployed for it at the end. sless itself
// never removes a namespace.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
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
