// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/naeel/sless/api/v1alpha1"
)

// functionAPI serves lists and watches of Functions as an API server does, as far as an informer asks.
type functionAPI struct {
	list     v1alpha1.FunctionList
	triggers v1alpha1.TriggerList
	events   chan metav1.WatchEvent
	once     sync.Once
	listed   chan struct{} // closed when the list was asked for
	gate     chan struct{} // the list is held back until this is closed
}

func (f *functionAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/apis/sless.io/v1alpha1/functions":
	case "/apis/sless.io/v1alpha1/triggers":
		f.serveTriggers(w, r)
		return
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "" {
		f.once.Do(func() { close(f.listed) })
		<-f.gate
		_ = json.NewEncoder(w).Encode(f.list)
		return
	}
	if r.URL.Query().Get("sendInitialEvents") != "" { // an older server; the informer falls back to a list
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
		})
		return
	}
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case event := <-f.events:
			_ = json.NewEncoder(w).Encode(event)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// serveTriggers serves the list of Triggers, and a watch in which nothing happens.
func (f *functionAPI) serveTriggers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "" {
		f.triggers.TypeMeta = metav1.TypeMeta{Kind: "TriggerList", APIVersion: v1alpha1.GroupVersion.String()}
		_ = json.NewEncoder(w).Encode(f.triggers)
		return
	}
	if r.URL.Query().Get("sendInitialEvents") != "" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func (f *functionAPI) send(t *testing.T, kind string, fn *v1alpha1.Function) {
	t.Helper()
	raw, err := json.Marshal(fn)
	if err != nil {
		t.Fatal(err)
	}
	f.events <- metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}}
}

// stored returns the Function demo/hello as an API server has it.
func stored(version string, conditions ...metav1.Condition) *v1alpha1.Function {
	fn := function(v1alpha1.PhaseReady, conditions...)
	fn.TypeMeta = metav1.TypeMeta{Kind: "Function", APIVersion: v1alpha1.GroupVersion.String()}
	fn.ResourceVersion = version
	fn.UID = "uid"
	fn.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 1000)}
	fn.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	fn.Spec.Source.Inline = &v1alpha1.InlineSource{Files: map[string]string{"handler.py": strings.Repeat("x", 1000)}}
	fn.Spec.Env = []corev1.EnvVar{{Name: "TOKEN", Value: "secret"}}
	return fn
}

func startResolver(t *testing.T, api http.Handler, onDelete func(types.NamespacedName)) *CachedResolver {
	t.Helper()
	server := httptest.NewServer(api)
	resolver, err := NewCachedResolver(&rest.Config{Host: server.URL}, "", usually, onDelete)
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- resolver.Start(t.Context()) }()
	t.Cleanup(func() { // the test's context has ended
		if err := receive(t, stopped); err != nil {
			t.Errorf("the resolver ended with %v", err)
		}
		server.Close()
	})
	return resolver
}

func TestCachedResolver(t *testing.T) {
	t.Parallel()
	yes := condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	no := condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonPending, "no pod runs")
	api := &functionAPI{
		list: v1alpha1.FunctionList{
			TypeMeta: metav1.TypeMeta{Kind: "FunctionList", APIVersion: v1alpha1.GroupVersion.String()},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items:    []v1alpha1.Function{*stored("1", yes)},
		},
		events: make(chan metav1.WatchEvent), listed: make(chan struct{}), gate: make(chan struct{}),
	}
	deleted := make(chan types.NamespacedName, 1)
	resolver := startResolver(t, api, func(fn types.NamespacedName) { deleted <- fn })

	<-api.listed
	if resolver.Ready() {
		t.Error("the resolver is ready before it knows the functions")
	}
	close(api.gate)
	eventually(t, "the resolver is ready", resolver.Ready)
	route, err := resolver.Resolve(t.Context(), hello)
	if err != nil || route != helloRoute {
		t.Errorf("got %+v, %v, want %+v", route, err, helloRoute)
	}
	if _, err := resolver.Resolve(t.Context(), types.NamespacedName{Namespace: "x", Name: "hello"}); statusOf(err) != 404 {
		t.Errorf("a function of another namespace: %v", err)
	}
	checkTrimmed(t, resolver)

	api.send(t, "MODIFIED", stored("2", no))
	eventually(t, "the function is not available", func() bool {
		_, err := resolver.Resolve(t.Context(), hello)
		return statusOf(err) == http.StatusServiceUnavailable
	})
	api.send(t, "DELETED", stored("3", no))
	if fn := receive(t, deleted); fn != hello {
		t.Errorf("%s was reported as deleted", fn)
	}
	if _, err := resolver.Resolve(t.Context(), hello); statusOf(err) != http.StatusNotFound {
		t.Errorf("a deleted function: %v", err)
	}
}

func statusOf(err error) int {
	if refusal := new(Refusal); errors.As(err, &refusal) {
		return refusal.Status
	}
	return 0
}

// checkTrimmed looks at what the cache holds of demo/hello.
func checkTrimmed(t *testing.T, resolver *CachedResolver) {
	t.Helper()
	var fn v1alpha1.Function
	if err := resolver.cache.Get(t.Context(), hello, &fn); err != nil {
		t.Fatal(err)
	}
	if fn.Annotations != nil || fn.ManagedFields != nil {
		t.Errorf("metadata is kept: %+v", fn.ObjectMeta)
	}
	if diff := cmp.Diff(v1alpha1.FunctionSpec{TimeoutSeconds: 7, Concurrency: 5}, fn.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// TestFunctionAPIComesLater has a cluster that does not serve Functions when the gateway starts.
func TestFunctionAPIComesLater(t *testing.T) {
	t.Parallel()
	functions := &functionAPI{
		list: v1alpha1.FunctionList{TypeMeta: metav1.TypeMeta{
			Kind: "FunctionList", APIVersion: v1alpha1.GroupVersion.String(),
		}},
		listed: make(chan struct{}), gate: make(chan struct{}),
	}
	close(functions.gate)
	asked := make(chan struct{}, 100)
	var served atomic.Bool
	resolver := startResolver(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if served.Load() {
			functions.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
		asked <- struct{}{}
	}), nil)
	receive(t, asked)
	if resolver.Ready() {
		t.Error("the resolver is ready without Functions")
	}
	served.Store(true)
	eventually(t, "the resolver is ready", resolver.Ready)
}

// brokenResolver fails for a reason that is not the function's.
type brokenResolver struct{ staticResolver }

func (*brokenResolver) Resolve(context.Context, types.NamespacedName) (Route, error) {
	return Route{}, errors.New("secret details")
}

func TestResolverFails(t *testing.T) {
	t.Parallel()
	g := startGateway(t, &brokenResolver{})
	body := checkRefusal(t, get(t, g.url+"/fn/demo/hello"), http.StatusInternalServerError, reasonInternal)
	if strings.Contains(body.Error, "secret") {
		t.Errorf("the answer tells details: %s", body.Error)
	}
}
