// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	httpv1beta1 "github.com/kedacore/http-add-on/operator/apis/http/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/internal/serverclock"
	"github.com/naeel/sless/internal/validator"
	"github.com/naeel/sless/runtimes"
)

// How long a test waits for a state. The machine may be slow; no test measures time.
const (
	eventually = 3 * time.Minute
	interval   = 20 * time.Millisecond
)

// How long the manager waits for a server that falls silent, and makes one pass at most. What takes longer on a slow machine
// is tried again.
const (
	answerTimeout = 3 * time.Second
	passLimit     = 10 * time.Second
)

var (
	k8sClient  client.Client
	restConfig *rest.Config
	platformS  *testPlatform
)

// testPlatform is a registry and an object store, both real servers in this process, that can have an outage.
type testPlatform struct {
	registryHost string
	storeHost    string
	config       *config.Config
	store        *objectstore.S3
	images       *image.Registry
	review       *reviewSwitch

	storeOutage, registryOutage outage
	// deletionRefused makes a registry of those that do not let anybody delete.
	deletionRefused atomic.Bool
	memory          *memory
	// machine is the clock of the machine on which the manager runs.
	machine *wrongClock
	// clock is what the manager makes of it.
	clock *serverclock.Clock
}

// wrongClock is a machine's clock that is off by a time that can be changed.
type wrongClock struct {
	clock.RealClock
	off atomic.Int64
}

func (c *wrongClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.off.Load())) }

func (c *wrongClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *wrongClock) set(off time.Duration) { c.off.Store(int64(off)) }

// clockSkew is how far the clock of the manager's machine is ahead of the API server's in all tests that say nothing else.
const clockSkew = 5 * time.Minute

func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Controller Suite")
}

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(eventually)
	SetDefaultEventuallyPollingInterval(interval)
	ctx, cancel := context.WithCancel(context.Background())
	Expect(v1alpha1.AddToScheme(scheme.Scheme)).To(Succeed())
	Expect(httpv1beta1.AddToScheme(scheme.Scheme)).To(Succeed())

	testEnv := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	cfg, err := testEnv.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		cancel()
		Expect(testEnv.Stop()).To(Succeed())
	})
	restConfig = cfg
	k8sClient, err = client.New(cfg, client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())

	platformS = startPlatform()
	for _, name := range []string{platformS.config.Builds.Namespace, platformS.config.Gateway.Namespace} {
		Expect(k8sClient.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	Expect(k8sClient.Create(ctx, pullSecret())).To(Succeed())
	platformS.clock = serverclock.New(platformS.machine, logr.Discard())
	managerConfig := rest.CopyConfig(cfg)
	managerConfig.Wrap(platformS.clock.Wrap)
	managerConfig.Impersonate = rest.ImpersonationConfig{UserName: managerUser(ctx)}
	mgr, err := ctrl.NewManager(managerConfig, ctrl.Options{
		Scheme: scheme.Scheme, Cache: CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	Expect(err).NotTo(HaveOccurred())
	catalogue, err := runtimes.Load()
	Expect(err).NotTo(HaveOccurred())
	Expect(Setup(ctx, mgr, Names(), Dependencies{
		Config: platformS.config, Catalogue: catalogue, Store: platformS.store, Images: platformS.images,
		Review: platformS.review, Clock: platformS.clock, memory: platformS.memory, passTimeout: passLimit,
	})).To(Succeed())
	go func() {
		defer GinkgoRecover()
		Expect(mgr.Start(ctx)).To(Succeed())
	}()
})

// managerUser makes a user that may do what the role of the manager says, and returns its name.
func managerUser(ctx context.Context) string {
	GinkgoHelper()
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "role.yaml"))
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict(data, role)).To(Succeed())
	Expect(k8sClient.Create(ctx, role)).To(Succeed())
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "manager"}
	Expect(k8sClient.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: []rbacv1.Subject{user},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	})).To(Succeed())
	return user.Name
}

// pullSecret is the operator's Secret for pulling images.
func pullSecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "registry-login", Namespace: "sless-system"},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)},
	}
}

// startPlatform starts the servers and puts the runtime images into the registry.
func startPlatform() *testPlatform {
	p := &testPlatform{memory: newMemory(true), machine: &wrongClock{}}
	p.machine.set(clockSkew)
	registryServer := httptest.NewServer(p.registryOutage.around(
		withoutDeletion(&p.deletionRefused, registry.New(registry.Logger(log.New(io.Discard, "", 0))))))
	DeferCleanup(registryServer.Close)
	p.registryHost = strings.TrimPrefix(registryServer.URL, "http://")
	storeServer := httptest.NewServer(p.storeOutage.around(gofakes3.New(s3mem.New()).Server()))
	DeferCleanup(storeServer.Close)
	p.storeHost = strings.TrimPrefix(storeServer.URL, "http://")

	p.config = &config.Config{
		Registry: config.Registry{
			Host: p.registryHost, RuntimeHost: p.registryHost, Insecure: []string{p.registryHost},
		},
		ObjectStore: config.ObjectStore{Endpoint: "s3.test", SecretName: "sless-object-store"},
		Builds: config.Builds{
			Namespace: "sless-builds", KanikoImage: "kaniko:test", BuilderImage: "sless:test", MaxConcurrent: 1,
		},
		Git: config.Git{
			Interval: &metav1.Duration{Duration: time.Hour}, TimeoutSeconds: 60, MaxBytes: 1 << 20, MaxConcurrent: 2,
		},
		Functions: config.Functions{MaxBodyBytes: 1 << 20, ImagePullSecretName: "registry-login"},
		Scaling: config.Scaling{
			Scaler: "scaler.keda:9090", Interceptor: "interceptor.keda.svc:8080", Operator: "keda-operator.keda",
			Namespace: "keda", StartupTimeoutSeconds: 60, PollingIntervalSeconds: 5,
		},
		// The tests make the passes themselves.
		Cleanup: config.Cleanup{
			Grace: metav1.Duration{Duration: 24 * time.Hour}, Interval: metav1.Duration{Duration: 1000 * time.Hour},
		},
		Gateway: config.Gateway{
			Namespace: "sless-system", ServiceName: "sless-gateway", ServicePort: 80, ExternalURL: "http://functions.test",
		},
	}
	var err error
	p.store, err = objectstore.New(objectstore.Config{
		Endpoint: p.storeHost, Region: "us-east-1", Bucket: "sless",
		PathStyle: true, Insecure: true, AccessKey: "key", SecretKey: "secret", AnswerTimeout: answerTimeout,
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(p.store.EnsureBucket(context.Background())).To(Succeed())
	p.review = &reviewSwitch{gates: map[string]*validator.Gate{}}
	p.images, err = image.New(image.Config{Insecure: p.config.Registry.Insecure, AnswerTimeout: answerTimeout})
	Expect(err).NotTo(HaveOccurred())
	catalogue, err := runtimes.Load()
	Expect(err).NotTo(HaveOccurred())
	for _, known := range catalogue.Names() {
		rt, _ := catalogue.Lookup(known)
		p.pushImage(rt.Reference(p.registryHost))
	}
	return p
}

// pushImage puts some image into the registry.
func (p *testPlatform) pushImage(ref string) {
	img, err := random.Image(1024, 1)
	Expect(err).NotTo(HaveOccurred())
	tag, err := name.NewTag(ref, name.Insecure)
	Expect(err).NotTo(HaveOccurred())
	Expect(remote.Write(tag, img)).To(Succeed())
}

func withoutDeletion(refused *atomic.Bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused.Load() && r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusMethodNotAllowed)
			_, _ = io.WriteString(w, `{"errors":[{"code":"UNSUPPORTED","message":"The operation is unsupported."}]}`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var namespaces atomic.Int32

// newNamespace makes a user namespace of its own for a test.
func newNamespace(ctx context.Context) string {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("user-%d", namespaces.Add(1))}}
	Expect(k8sClient.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}
