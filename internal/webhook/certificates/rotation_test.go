// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/naeel/sless/internal/testutil"
)

const (
	namespace  = "sless-system"
	secretName = "webhook-certificate"
	hookName   = "hooks"
	path       = "/refuse"
	// renewBefore of the test. A certificate is renewed some seconds after it was made and valid for an hour then, so that
	// no test depends on how fast the machine is.
	testRenewBefore = time.Hour
	testServerLife  = testRenewBefore + 5*time.Second
)

// fixture is a manager that serves a webhook which refuses every ConfigMap with the label "judged", by a certificate of
// this package, and an API server that asks it.
type fixture struct {
	client  client.Client
	address string
	ready   func(*http.Request) error
}

func start(t *testing.T) *fixture {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	testEnv := &envtest.Environment{}
	cfg, err := testEnv.Start()
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		if err := testEnv.Stop(); err != nil {
			t.Error(err)
		}
	})
	port := freePort(t)
	f := &fixture{address: net.JoinHostPort("localhost", strconv.Itoa(port))}
	f.client, err = client.New(cfg, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	f.prepare(ctx, g)

	source := NewSource()
	server := webhook.NewServer(webhook.Options{Host: "localhost", Port: port, TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.GetCertificate = source.GetCertificate },
	}})
	server.Register(path, &webhook.Admission{Handler: admission.HandlerFunc(
		func(context.Context, admission.Request) admission.Response { return admission.Denied("judged") })})
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, WebhookServer: server,
		Logger: zap.New(zap.UseDevMode(true), zap.WriteTo(t.Output())),
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(mgr.GetWebhookServer()).NotTo(BeNil())
	f.ready, err = Rotate(ctx, mgr, source, Options{
		Namespace: namespace, Service: "hooks", Secret: secretName, Mutating: hookName, Validating: hookName,
		Dir: t.TempDir(), ExtraNames: []string{"localhost"},
		ServerLifetime: testServerLife, RenewBefore: testRenewBefore, CheckEvery: time.Second,
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.ready(nil)).NotTo(Succeed(), "before the start nobody can have been told")
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	g.Eventually(func() error { return f.ready(nil) }).WithTimeout(time.Minute).Should(Succeed())
	return f
}

// prepare makes the namespace and the configurations, as the manifests do.
func (f *fixture) prepare(ctx context.Context, g *WithT) {
	g.Expect(f.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	url := fmt.Sprintf("https://%s%s", f.address, path)
	sideEffects := admissionv1.SideEffectClassNone
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
	g.Expect(f.client.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: hookName},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "judge.sless.io", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, Rules: rules,
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"judged": "yes"}},
			SideEffects:    &sideEffects, AdmissionReviewVersions: []string{"v1"},
		}},
	})).To(Succeed())
	g.Expect(f.client.Create(ctx, &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: hookName},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "nobody.sless.io", ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
			SideEffects: &sideEffects, AdmissionReviewVersions: []string{"v1"},
		}},
	})).To(Succeed())
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// bundles returns the authorities that the API server trusts, of both configurations.
func (f *fixture) bundles(ctx context.Context, g Gomega) (string, string) {
	validating, mutating := &admissionv1.ValidatingWebhookConfiguration{}, &admissionv1.MutatingWebhookConfiguration{}
	g.Expect(f.client.Get(ctx, client.ObjectKey{Name: hookName}, validating)).To(Succeed())
	g.Expect(f.client.Get(ctx, client.ObjectKey{Name: hookName}, mutating)).To(Succeed())
	return string(validating.Webhooks[0].ClientConfig.CABundle), string(mutating.Webhooks[0].ClientConfig.CABundle)
}

// served returns the certificate that the server shows to somebody who trusts the bundle.
func (f *fixture) served(g Gomega, bundle string) *x509.Certificate {
	pool := x509.NewCertPool()
	g.Expect(pool.AppendCertsFromPEM([]byte(bundle))).To(BeTrue())
	conn, err := tls.Dial("tcp", f.address, &tls.Config{RootCAs: pool, ServerName: "hooks.sless-system.svc"})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0]
}

// judged tells that the API server reached the webhook.
func (f *fixture) judged(ctx context.Context) func() error {
	return func() error {
		return f.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "c-", Namespace: namespace, Labels: map[string]string{"judged": "yes"},
		}}, client.DryRunAll)
	}
}

func TestRotation(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	g.SetDefaultEventuallyTimeout(2 * time.Minute)
	f := start(t)
	g.Eventually(f.judged(ctx)).Should(MatchError(ContainSubstring("judged")))
	firstBundle, mutating := f.bundles(ctx, g)
	g.Expect(mutating).To(Equal(firstBundle))
	first := f.served(g, firstBundle)

	t.Log("Waiting for the server's certificate to be renewed under the same authority")
	g.Eventually(func(g Gomega) {
		g.Expect(f.served(g, firstBundle).NotAfter).To(BeTemporally(">", first.NotAfter))
	}).Should(Succeed())
	g.Expect(f.judged(ctx)()).To(MatchError(ContainSubstring("judged")))
	g.Expect(f.ready(nil)).To(Succeed())

	t.Log("Losing the Secret: authority and certificate are made again, and the API server is told")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName, Namespace: namespace}}
	g.Expect(f.client.Delete(ctx, secret)).To(Succeed())
	g.Eventually(func(g Gomega) {
		validating, mutating := f.bundles(ctx, g)
		g.Expect(validating).NotTo(Equal(firstBundle))
		g.Expect(mutating).To(Equal(validating))
		f.served(g, validating)
	}).Should(Succeed())
	g.Eventually(f.judged(ctx)).Should(MatchError(ContainSubstring("judged")))

	t.Log("An authority that is about to end is made anew when it comes in, and the running server follows")
	soon := time.Now().Add(testRenewBefore / 2)
	g.Expect(f.client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	secret.Data = testutil.WebhookCertificate(soon, soon, "hooks.sless-system.svc", "localhost")
	ending := string(secret.Data["ca.crt"])
	g.Expect(f.client.Update(ctx, secret)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(f.client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		validating, mutating := f.bundles(ctx, g)
		g.Expect(validating).To(And(Equal(string(secret.Data["ca.crt"])), Equal(mutating), Not(Equal(ending))))
		g.Expect(f.served(g, validating).NotAfter).To(BeTemporally(">", soon))
	}).Should(Succeed())
	g.Eventually(f.judged(ctx)).Should(MatchError(ContainSubstring("judged")))

	t.Log("A Secret with nonsense is mended, and never shown")
	nonsense := client.RawPatch(types.MergePatchType, []byte(`{"data":{"tls.crt":"eA==","tls.key":"eA=="}}`))
	g.Expect(f.client.Patch(ctx, secret.DeepCopy(), nonsense)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(f.client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		g.Expect(string(secret.Data[certName])).To(ContainSubstring("BEGIN CERTIFICATE"))
		validating, _ := f.bundles(ctx, g)
		f.served(g, validating)
	}).Should(Succeed())
}

func TestOptions(t *testing.T) {
	t.Parallel()
	right := Options{Namespace: "n", Service: "s", Secret: "c", Mutating: "m", Validating: "v", Dir: "/d"}
	negative := right
	negative.CheckEvery = -time.Second
	for name, tc := range map[string]struct {
		opts Options
		want string
	}{
		"right":    {opts: right},
		"empty":    {want: "the namespace (POD_NAMESPACE) must be named"},
		"negative": {opts: negative, want: "must not be negative"},
	} {
		if err := tc.opts.Check(); (err != nil) != (tc.want != "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
	if err := NewSource().Loaded(nil); err == nil {
		t.Error("a source without a certificate is ready")
	}
}
