//go:build e2e

// SPDX-License-Identifier: Apache-2.0

// Package e2e tells the stories of users on a real cluster with sless on it: real builds, real pods, real calls.
//
// Several processes run stories side by side; a story that breaks a part of the platform is marked Serial and runs alone,
// after all others. Every story has a namespace of its own (newNamespace, newTenant), which is removed behind its back. What
// a user does is in steps_test.go, what an operator does to sless itself in manager_test.go.
package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
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

// The order in which stories begin: those that wait for minutes first, and those that keep others waiting soon.
const (
	early   = 1
	earlier = 2
	first   = 3
)

// pause is for states that must not change for a while.
const pause = 3 * time.Second

// k8s is the API server as the administrator sees it.
var k8s client.Client

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "End-to-end stories")
}

// The first process alone serves the keys of the tokens, since the gateway asks one address. All of them sign.
var _ = SynchronizedBeforeSuite(func(SpecContext) []byte {
	if otherCluster() {
		return nil
	}
	return serveIssuer()
}, func(ctx SpecContext, issuerKey []byte) {
	logf.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(interval)
	Expect(v1alpha1.AddToScheme(scheme.Scheme)).To(Succeed())
	var err error
	k8s, err = client.New(restConfig(), client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error {
		return k8s.List(ctx, &v1alpha1.FunctionList{})
	}).Should(Succeed(), "the cluster must have sless on it")
	if issuerKey != nil {
		issuer = issuerOf(issuerKey)
	}
})

var _ = AfterSuite(func(ctx SpecContext) {
	for _, namespace := range removed {
		Eventually(remains(ctx, namespace.name)).Should(BeEmpty(), "of the story: "+namespace.story)
	}
})

// otherCluster tells whether the stories run on the cluster of the current kubeconfig, whose pods do not reach this machine.
func otherCluster() bool { return os.Getenv("SLESS_E2E_CLUSTER") == "current" }

// needsThisMachine skips a story with a server in this process when that is out of the cluster's reach.
func needsThisMachine(server string) {
	GinkgoHelper()
	if otherCluster() {
		Skip(server + " runs in this process, which the pods of another cluster cannot reach")
	}
}

// restConfig is that of the local cluster, or of the current kubeconfig. Without a limit of its own a client waits for
// itself.
func restConfig() *rest.Config {
	GinkgoHelper()
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if !otherCluster() {
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: filepath.Join("..", "..", "bin", "cluster", "kubeconfig")}
	}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred(), "reading the kubeconfig")
	cfg.QPS = -1
	return cfg
}
