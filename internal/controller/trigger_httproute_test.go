// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/testutil"
)

// gatewayDefinitions are the kinds of the Gateway API, as its project releases them.
func gatewayDefinitions() string {
	GinkgoHelper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	Expect(err).NotTo(HaveOccurred())
	return filepath.Join(strings.TrimSpace(string(module)), "config", "crd", "standard")
}

// otherCluster starts another API server, to which all helpers of this suite talk until the test ends: the manager of the
// suite would make Ingresses of what this test makes. It returns what makes a manager of Triggers with this configuration.
func otherCluster(ctx context.Context, gateway config.Gateway) (env *envtest.Environment, newManager func() (ctrl.Manager, error)) {
	GinkgoHelper()
	env = &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
	}
	cfg, err := env.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.Stop)
	DeferCleanup(func(suite client.Client) { k8sClient = suite }, k8sClient)
	k8sClient, err = client.New(cfg, client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	ensureGatewayNamespace(ctx)
	return env, func() (ctrl.Manager, error) {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{
			Scheme: scheme.Scheme, Cache: CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
			Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
		})
		if err != nil {
			return nil, err
		}
		return mgr, Setup(ctx, mgr, []string{TriggerController}, Dependencies{
			Config: &config.Config{Gateway: gateway}, Clock: clock.RealClock{},
		})
	}
}

// servedFunction is a Function that another manager has made ready.
func servedFunction(ctx context.Context, namespace string) *v1alpha1.Function {
	GinkgoHelper()
	fn := testutil.MakeFunction("cart", namespace).File("handler.py", pythonHandler).Obj()
	Expect(k8sClient.Create(ctx, fn)).To(Succeed())
	fn.Status.ObservedGeneration = fn.Generation
	meta.SetStatusCondition(&fn.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, ObservedGeneration: fn.Generation,
	})
	Expect(k8sClient.Status().Update(ctx, fn)).To(Succeed())
	return fn
}

// routeOf reads the HTTPRoute of a Trigger.
func routeOf(ctx context.Context, t *v1alpha1.Trigger) *gatewayv1.HTTPRoute {
	GinkgoHelper()
	route := &gatewayv1.HTTPRoute{}
	key := client.ObjectKey{Namespace: "sless-system", Name: naming.HostRoute(t.Namespace, t.Name)}
	Eventually(func() error { return k8sClient.Get(ctx, key, route) }).Should(Succeed())
	return route
}

// gatewaySays plays the controller of a Gateway: it takes a route or not.
func gatewaySays(ctx context.Context, route *gatewayv1.HTTPRoute, accepted metav1.ConditionStatus, reason string) {
	GinkgoHelper()
	condition := func(kind gatewayv1.RouteConditionType, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{
			Type: string(kind), Status: status, Reason: reason, ObservedGeneration: route.Generation, LastTransitionTime: metav1.Now(),
		}
	}
	route.Status.Parents = []gatewayv1.RouteParentStatus{{
		ParentRef: route.Spec.ParentRefs[0], ControllerName: "example.com/gateways",
		Conditions: []metav1.Condition{
			condition(gatewayv1.RouteConditionAccepted, accepted, reason),
			condition(gatewayv1.RouteConditionResolvedRefs, metav1.ConditionTrue, string(gatewayv1.RouteReasonResolvedRefs)),
		},
	}}
	Expect(k8sClient.Status().Update(ctx, route)).To(Succeed())
}

var _ = Describe("An http Trigger of a cluster with the Gateway API", func() {
	It("gets an HTTPRoute, which a Gateway accepts, and which is its own as an Ingress is", func(ctx SpecContext) {
		Expect(gatewayv1.Install(scheme.Scheme)).To(Succeed())
		env, newManager := otherCluster(ctx, config.Gateway{
			Namespace: "sless-system", ServiceName: "sless-gateway", ServicePort: 80, FunctionDomain: "fn.example.com",
			HTTPRoute: &config.HTTPRoute{
				ParentRefs: []config.ParentRef{{Name: "public", Namespace: "infra", SectionName: "web"}}, RequestTimeout: "0s",
			},
		})
		_, err := newManager()
		Expect(err).To(MatchError(ContainSubstring("the cluster serves no HTTPRoutes")))
		_, err = envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{Paths: []string{gatewayDefinitions()}})
		Expect(err).NotTo(HaveOccurred())
		mgr, err := newManager()
		Expect(err).NotTo(HaveOccurred())
		managerCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		DeferCleanup(stop)
		go func() {
			defer GinkgoRecover()
			Expect(mgr.Start(managerCtx)).To(Succeed())
		}()

		By("waiting for a Gateway")
		fn := servedFunction(ctx, newNamespace(ctx))
		first := testutil.MakeTrigger("first", fn.Namespace, fn.Name).Obj()
		Expect(k8sClient.Create(ctx, first)).To(Succeed())
		triggerIs(ctx, first, "Unknown/Pending")
		host := "cart-" + fn.Namespace + ".fn.example.com"
		route := routeOf(ctx, first)
		Expect(route.Spec.Hostnames).To(Equal([]gatewayv1.Hostname{gatewayv1.Hostname(host)}))
		parent := route.Spec.ParentRefs[0]
		Expect(parent.Name).To(BeEquivalentTo("public"))
		Expect(parent.Namespace).To(HaveValue(BeEquivalentTo("infra")))
		Expect(parent.SectionName).To(HaveValue(BeEquivalentTo("web")))
		backend := route.Spec.Rules[0].BackendRefs[0]
		Expect(backend.Name).To(BeEquivalentTo("sless-gateway"))
		Expect(ptr.Deref(backend.Port, 0)).To(BeEquivalentTo(80))
		Expect(ptr.Deref(route.Spec.Rules[0].Matches[0].Path.Value, "")).To(Equal("/"), "the API's own default")
		Expect(route.Spec.Rules[0].Timeouts.Request).To(HaveValue(BeEquivalentTo("0s")))

		By("being refused and accepted by it")
		gatewaySays(ctx, route, metav1.ConditionFalse, string(gatewayv1.RouteReasonNotAllowedByListeners))
		triggerIs(ctx, first, "False/HostNotRouted")
		Expect(getTrigger(ctx, first).Status.Host).To(Equal(host), "the gateway serves it all the same")
		gatewaySays(ctx, route, metav1.ConditionTrue, string(gatewayv1.RouteReasonAccepted))
		triggerIs(ctx, first, "True/Ready")
		Expect(getTrigger(ctx, first).Status.URL).To(Equal("http://" + host))

		By("looking again: nothing is written")
		route = routeOf(ctx, first)
		asked := getTrigger(ctx, first)
		lookAgain(ctx, TriggerController, asked)
		Consistently(func() string { return getTrigger(ctx, first).ResourceVersion }, "1s").Should(Equal(asked.ResourceVersion))
		Expect(routeOf(ctx, first).ResourceVersion).To(Equal(route.ResourceVersion))

		By("being asked for again, by the same Function and by another")
		second := testutil.MakeTrigger("second", fn.Namespace, fn.Name).Obj()
		rival := testutil.MakeTrigger("rival", servedFunction(ctx, newNamespace(ctx)).Namespace, fn.Name).Host(host).Obj()
		Expect(k8sClient.Create(ctx, second)).To(Succeed())
		Expect(k8sClient.Create(ctx, rival)).To(Succeed())
		triggerIs(ctx, second, "True/Ready")
		triggerIs(ctx, rival, "False/HostConflict")
		routes := func() int {
			list := &gatewayv1.HTTPRouteList{}
			Expect(k8sClient.List(ctx, list)).To(Succeed())
			return len(list.Items)
		}
		Expect(routes()).To(Equal(1))

		By("losing the route by hand")
		Expect(k8sClient.Delete(ctx, route)).To(Succeed())
		Eventually(func() bool { return routeOf(ctx, first).UID != route.UID }).Should(BeTrue())
		triggerIs(ctx, first, "Unknown/Pending")

		By("leaving it to the next one, and nothing at the end")
		deleteTrigger(ctx, first)
		gatewaySays(ctx, routeOf(ctx, second), metav1.ConditionTrue, string(gatewayv1.RouteReasonAccepted))
		triggerIs(ctx, second, "True/Ready")
		Eventually(routes).Should(Equal(1))
		changeTrigger(ctx, second, func(s *v1alpha1.TriggerSpec) { s.HTTP = &v1alpha1.HTTPTrigger{Host: "own.example.com"} })
		triggerIs(ctx, second, "Unknown/Pending")
		Expect(routeOf(ctx, second).Spec.Hostnames[0]).To(BeEquivalentTo("own.example.com"))
		deleteTrigger(ctx, second)
		Eventually(routes).Should(BeZero())
		ingresses := &networkingv1.IngressList{}
		Expect(k8sClient.List(ctx, ingresses)).To(Succeed())
		Expect(ingresses.Items).To(BeEmpty())

		By("refusing to take over what is somebody else's")
		foreign := testutil.MakeTrigger("web", fn.Namespace, fn.Name).Host("foreign.example.com").Obj()
		theirs := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{
			Name: naming.HostRoute(foreign.Namespace, foreign.Name), Namespace: "sless-system",
		}}
		Expect(k8sClient.Create(ctx, theirs)).To(Succeed())
		Expect(k8sClient.Create(ctx, foreign)).To(Succeed())
		triggerIs(ctx, foreign, "False/NameConflict")
		deleteTrigger(ctx, foreign)
		Expect(apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(theirs), theirs))).To(BeFalse())
	}, SpecTimeout(10*time.Minute))
})
