// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata" // As in the manager.

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/runtimes"
)

// How long a test waits for a state. The machine may be slow; no test measures time.
const (
	eventually = 60 * time.Second
	interval   = 100 * time.Millisecond
)

var (
	k8sClient  client.Client
	warnings   = &warningLog{}
	reviews    = &scriptedReviewer{}
	testScheme *runtime.Scheme
)

func TestWebhooks(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Webhook Suite")
}

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(eventually)
	SetDefaultEventuallyPollingInterval(interval)
	ctx, cancel := context.WithCancel(context.Background())
	testScheme = runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(testScheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(testScheme)).To(Succeed())

	testEnv := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{
			Paths: []string{filepath.Join("..", "..", "..", "config", "webhook", "manifests.yaml")},
		},
	}
	cfg, err := testEnv.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		cancel()
		Expect(testEnv.Stop()).To(Succeed())
	})
	user := rest.CopyConfig(cfg)
	user.WarningHandlerWithContext = warnings
	k8sClient, err = client.New(user, client.Options{Scheme: testScheme})
	Expect(err).NotTo(HaveOccurred())

	hooks := testEnv.WebhookInstallOptions
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: testScheme, Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir,
		}),
	})
	Expect(err).NotTo(HaveOccurred())
	catalogue, err := runtimes.Load()
	Expect(err).NotTo(HaveOccurred())
	now := clocktesting.NewFakePassiveClock(time.Date(2026, time.November, 30, 0, 0, 0, 0, time.UTC))
	Expect(Setup(mgr, Dependencies{Catalogue: catalogue, Clock: now, Reviewer: reviews})).To(Succeed())
	go func() {
		defer GinkgoRecover()
		Expect(mgr.Start(ctx)).To(Succeed())
	}()
	Eventually(func() error { return mgr.GetWebhookServer().StartedChecker()(nil) }).Should(Succeed())
})

// warningLog keeps the warnings that the API server sends along, as kubectl prints them.
type warningLog struct {
	mu   sync.Mutex
	said []string
}

func (l *warningLog) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, text)
}

// take returns the warnings since the last time.
func (l *warningLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.said
	l.said = nil
	return said
}

// scriptedReviewer says what a test tells it to.
type scriptedReviewer struct {
	calls   atomic.Int32
	dryRuns atomic.Int32
	say     atomic.Pointer[func(context.Context) (Review, error)]
}

func (r *scriptedReviewer) Review(ctx context.Context, _ *v1alpha1.Function, dryRun bool) (Review, error) {
	r.calls.Add(1)
	if dryRun {
		r.dryRuns.Add(1)
	}
	if say := r.say.Load(); say != nil {
		return (*say)(ctx)
	}
	return Review{}, nil
}

// answer makes the reviewer say something until the test ends.
func (r *scriptedReviewer) answer(say func(context.Context) (Review, error)) {
	r.say.Store(&say)
	DeferCleanup(func() { r.say.Store(nil) })
}

var namespaces atomic.Int32

// newNamespace makes a user namespace of its own for a test, and forgets earlier warnings.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("user-%d", namespaces.Add(1))}}
	Expect(k8sClient.Create(ctx, namespace)).To(Succeed())
	warnings.take()
	return namespace.Name
}

// withoutWebhooks stores something as if the rules had not existed when it came in: it takes the configurations away
// meanwhile.
func withoutWebhooks(ctx context.Context, store func()) {
	GinkgoHelper()
	paused := pauseWebhooks(ctx)
	defer paused.resume(ctx)
	store()
}
