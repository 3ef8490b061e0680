// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/testutil"
)

// newHostReconciler is a reconciler without a cluster, for configurations that the one of the suite has not.
func newHostReconciler(t *testing.T, gateway config.Gateway, objects ...client.Object) *TriggerReconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	gateway.Namespace, gateway.ServiceName, gateway.ServicePort = "sless-system", "sless-gateway", 80
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Trigger{}).
		WithIndex(&v1alpha1.Trigger{}, indexTriggerHost, func(obj client.Object) []string {
			if host, _ := triggerHost(obj.(*v1alpha1.Trigger), gateway); host != "" {
				return []string{host}
			}
			return nil
		}).Build()
	return &TriggerReconciler{
		Client: c, APIReader: c, Config: &config.Config{Gateway: gateway}, Recorder: events.NewFakeRecorder(100),
		Clock: clocktesting.NewFakePassiveClock(testNow),
	}
}

// pass makes a pass over a Trigger of the namespace shop and returns what it left.
func pass(t *testing.T, r *TriggerReconciler, name string) *v1alpha1.Trigger {
	t.Helper()
	return passIn(t, r, "shop", name)
}

func passIn(t *testing.T, r *TriggerReconciler, namespace, name string) *v1alpha1.Trigger {
	t.Helper()
	key := client.ObjectKey{Namespace: namespace, Name: name}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	after := &v1alpha1.Trigger{}
	if err := r.Get(t.Context(), key, after); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return after
}

func countOf(ctx context.Context, t *testing.T, r *TriggerReconciler, list client.ObjectList) int {
	t.Helper()
	if err := r.List(ctx, list); err != nil {
		t.Fatal(err)
	}
	return meta.LenList(list)
}

// aged is a Trigger as the API server stores it.
func aged(w *testutil.TriggerWrapper, age time.Duration) *v1alpha1.Trigger {
	trigger := w.Obj()
	trigger.UID = types.UID("uid-" + trigger.Name)
	trigger.CreationTimestamp = metav1.NewTime(testNow.Add(-age))
	return trigger
}

func TestHostsOfADomainAreShared(t *testing.T) {
	t.Parallel()
	first := aged(testutil.MakeTrigger("first", "shop", "cart"), time.Hour)
	second := aged(testutil.MakeTrigger("second", "shop", "cart"), time.Minute)
	// Another Function that asks for the same host by name.
	rival := aged(testutil.MakeTrigger("rival", "shop", "other").Host("cart-shop.fn.example.com"), 2*time.Hour)
	r := newHostReconciler(t, config.Gateway{FunctionDomain: "fn.example.com"}, readyFn.DeepCopy(), first, second, rival)
	ingresses := func() int { return countOf(t.Context(), t, r, &networkingv1.IngressList{}) }
	for _, name := range []string{"first", "second"} {
		after := pass(t, r, name)
		if after.Status.Host != "cart-shop.fn.example.com" || after.Status.URL != "http://cart-shop.fn.example.com" {
			t.Errorf("%s has host %q, url %q", name, after.Status.Host, after.Status.URL)
		}
	}
	if n := ingresses(); n != 1 {
		t.Errorf("there are %d Ingresses, want one for both", n)
	}
	if c := triggerCondition(pass(t, r, "rival"), v1alpha1.ConditionReady); c.Reason != v1alpha1.ReasonHostConflict {
		t.Errorf("the rival is %s", c.Reason)
	}
	if err := r.Delete(t.Context(), pass(t, r, "first")); err != nil {
		t.Fatal(err)
	}
	pass(t, r, "first")
	if n := ingresses(); n != 0 {
		t.Errorf("the first one is gone and left %d Ingresses", n)
	}
	pass(t, r, "second")
	if n := ingresses(); n != 1 {
		t.Errorf("the second one took over with %d Ingresses", n)
	}
}

func TestHTTPRouteInsteadOfIngress(t *testing.T) {
	t.Parallel()
	trigger := aged(testutil.MakeTrigger("web", "shop", "cart").Host("a.example.com"), time.Hour)
	r := newHostReconciler(t, config.Gateway{ExternalURL: "https://fn.example.com"}, readyFn.DeepCopy(), trigger)
	if after := pass(t, r, "web"); after.Status.URL != "https://a.example.com" {
		t.Errorf("url is %q", after.Status.URL)
	}
	if n := countOf(t.Context(), t, r, &networkingv1.IngressList{}); n != 1 {
		t.Errorf("there are %d Ingresses", n)
	}
	r.Config.Gateway.HTTPRoute = &config.HTTPRoute{ParentRefs: []config.ParentRef{{Name: "public"}}}
	pass(t, r, "web")
	if n, m := countOf(t.Context(), t, r, &networkingv1.IngressList{}), countOf(t.Context(), t, r, httpRouteList()); n != 0 || m != 1 {
		t.Errorf("there are %d Ingresses and %d HTTPRoutes", n, m)
	}
	r.Config.Gateway.ExternalURL = "https://a.example.com:8443/"
	c := triggerCondition(pass(t, r, "web"), v1alpha1.ConditionReady)
	if c.Reason != v1alpha1.ReasonHostConflict || !strings.Contains(c.Message, "own address") {
		t.Errorf("the gateway's own host: %s %s", c.Reason, c.Message)
	}
	if m := countOf(t.Context(), t, r, httpRouteList()); m != 0 {
		t.Errorf("%d HTTPRoutes are left", m)
	}
	if err := r.Delete(t.Context(), pass(t, r, "web")); err != nil {
		t.Fatal(err)
	}
	if after := pass(t, r, "web"); after.Name != "" {
		t.Error("the Trigger is still there")
	}
}

func TestHostThatIsNotAllowedAnyMore(t *testing.T) {
	t.Parallel()
	const host = "login.example.com"
	squatter := aged(testutil.MakeTrigger("squatter", "shop", "cart").Host(host), 2*time.Hour)
	owner := aged(testutil.MakeTrigger("owner", "shop", "cart").Host(host), time.Hour)
	owner.Namespace = "ops"
	fn := readyFn.DeepCopy()
	fn.Namespace = "ops"
	for name, gateway := range map[string]config.Gateway{
		"Ingress":   {ExternalURL: "https://fn.example.com"},
		"HTTPRoute": {ExternalURL: "https://fn.example.com", HTTPRoute: &config.HTTPRoute{ParentRefs: []config.ParentRef{{Name: "public"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHostReconciler(t, gateway, readyFn.DeepCopy(), fn.DeepCopy(), squatter.DeepCopy(), owner.DeepCopy())
			routes := func() int {
				n := countOf(t.Context(), t, r, &networkingv1.IngressList{})
				if gateway.HTTPRoute != nil {
					n += countOf(t.Context(), t, r, httpRouteList())
				}
				return n
			}
			if after := pass(t, r, "squatter"); after.Status.Host != host || routes() != 1 {
				t.Fatalf("without a list it has host %q, and there are %d routes", after.Status.Host, routes())
			}
			r.Config.Gateway.AllowedHosts = []config.AllowedHost{{Host: "*.example.com", Namespaces: []string{"ops"}}}
			after := pass(t, r, "squatter")
			c := triggerCondition(after, v1alpha1.ConditionReady)
			if c.Reason != v1alpha1.ReasonHostConflict || !strings.Contains(c.Message, "gateway.allowedHosts") {
				t.Errorf("it is %s: %s", c.Reason, c.Message)
			}
			if after.Status.Host+after.Status.URL != "" || routes() != 0 {
				t.Errorf("it keeps host %q, URL %q, and there are %d routes", after.Status.Host, after.Status.URL, routes())
			}
			// The older claim keeps the host from nobody who may have it.
			if after := passIn(t, r, "ops", "owner"); after.Status.Host != host || routes() != 1 {
				t.Errorf("the owner has host %q, and there are %d routes", after.Status.Host, routes())
			}
		})
	}
}
