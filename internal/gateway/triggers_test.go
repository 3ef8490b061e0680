// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/naeel/sless/api/v1alpha1"
)

// httpTrigger returns an http Trigger of demo/hello. granted is the host that the controller gave it.
func httpTrigger(name, granted string, enabled bool, methods ...v1alpha1.HTTPMethod) *v1alpha1.Trigger {
	return &v1alpha1.Trigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: hello.Namespace, Name: name, CreationTimestamp: metav1.NewTime(testTime)},
		Spec: v1alpha1.TriggerSpec{
			FunctionRef: v1alpha1.FunctionReference{Name: hello.Name}, Type: v1alpha1.TriggerTypeHTTP, Enabled: &enabled,
			HTTP: &v1alpha1.HTTPTrigger{Host: granted, Methods: methods},
		},
		Status: v1alpha1.TriggerStatus{Host: granted},
	}
}

func cronTrigger(enabled bool, method v1alpha1.HTTPMethod) *v1alpha1.Trigger {
	t := httpTrigger("c", "", enabled)
	t.Spec.Type, t.Spec.HTTP = v1alpha1.TriggerTypeCron, nil
	t.Spec.Cron = &v1alpha1.CronTrigger{Schedule: "* * * * *", Method: method}
	return t
}

func tableOf(triggers ...*v1alpha1.Trigger) *triggerTable {
	table := newTriggerTable()
	for _, t := range triggers {
		table.put(t)
	}
	return table
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	type triggers = []*v1alpha1.Trigger
	tests := map[string]struct {
		triggers triggers
		host     string
		method   string
		trigger  string // the header
		// want is "status reason allow", empty when the call is let in.
		want string
	}{
		"no triggers": {method: "PURGE"},
		"no methods":  {triggers: triggers{httpTrigger("a", "", true)}, method: "PURGE"},
		"a method of the list": {
			triggers: triggers{httpTrigger("a", "", true, "GET", "POST")}, method: "POST",
		},
		"a method that is not in the list": {
			triggers: triggers{httpTrigger("a", "", true, "POST", "GET")}, method: "PUT", want: "405 MethodNotAllowed GET, POST",
		},
		"HEAD is not GET": {triggers: triggers{httpTrigger("a", "", true, "GET")}, method: "HEAD", want: "405 MethodNotAllowed GET"},
		"several triggers: what one of them lets in": {
			triggers: triggers{httpTrigger("a", "", true, "GET"), httpTrigger("b", "", true, "PUT", "GET")}, method: "PUT",
		},
		"several triggers: what none of them lets in": {
			triggers: triggers{httpTrigger("a", "", true, "GET"), httpTrigger("b", "", true, "PUT", "GET")}, method: "POST",
			want: "405 MethodNotAllowed GET, PUT",
		},
		"several triggers, one lets all in": {
			triggers: triggers{httpTrigger("a", "", true, "GET"), httpTrigger("b", "", true)}, method: "POST",
		},
		"a disabled trigger lets nothing in": {
			triggers: triggers{httpTrigger("a", "", true, "GET"), httpTrigger("b", "", false)}, method: "POST",
			want: "405 MethodNotAllowed GET",
		},
		"only cron is enabled: the path takes no more than it took": {
			triggers: triggers{httpTrigger("a", "", false, "GET"), cronTrigger(true, "")}, method: "DELETE",
			want: "405 MethodNotAllowed GET",
		},
		"only cron there is": {triggers: triggers{cronTrigger(true, "")}, method: "DELETE"},
		"cron calls although http does not let it": {
			triggers: triggers{httpTrigger("a", "", true, "GET"), cronTrigger(true, "")}, method: "POST", trigger: "c",
		},
		"cron calls with its own method only": {
			triggers: triggers{httpTrigger("a", "", true, "GET"), cronTrigger(true, "PUT")}, method: "POST", trigger: "c",
			want: "405 MethodNotAllowed GET",
		},
		"a disabled cron trigger does not call": {
			triggers: triggers{httpTrigger("a", "", true, "GET"), cronTrigger(false, "")}, method: "POST", trigger: "c",
			want: "405 MethodNotAllowed GET",
		},
		"an http trigger's name opens nothing": {
			triggers: triggers{httpTrigger("a", "", true, "GET")}, method: "POST", trigger: "a", want: "405 MethodNotAllowed GET",
		},
		"a host has the methods of its own trigger": {
			triggers: triggers{httpTrigger("a", "a.example.com", true, "GET"), httpTrigger("b", "", true)},
			host:     "A.example.com.:8080", method: "POST", want: "405 MethodNotAllowed GET",
		},
		"a host whose trigger is disabled": {
			triggers: triggers{httpTrigger("a", "a.example.com", false), httpTrigger("b", "", true)},
			host:     "a.example.com", method: "GET", want: "503 Disabled ",
		},
		"a host that several share, one of them disabled": {
			triggers: triggers{httpTrigger("a", "a.example.com", false), httpTrigger("b", "a.example.com", true)},
			host:     "a.example.com", method: "GET",
		},
		"a host that was taken away a moment ago": {
			triggers: triggers{httpTrigger("b", "", true)}, host: "a.example.com", method: "GET", want: "503 Disabled ",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := newRequest(t, tc.method, "http://gateway/", nil)
			if tc.trigger != "" {
				req.Header.Set(headerTrigger, tc.trigger)
			}
			got := ""
			if r := tableOf(tc.triggers...).Admit(hello, tc.host, req); r != nil {
				got = fmt.Sprintf("%d %s %s", r.Status, r.Reason, r.Allow)
			}
			if got != tc.want {
				t.Errorf("Admit = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTriggerTableHosts(t *testing.T) {
	t.Parallel()
	table := newTriggerTable()
	handler := table.handler()
	host := func(name string) string {
		fn, ok := table.Host(name)
		if !ok {
			return ""
		}
		return fn.String()
	}
	if host("a.example.com") != "" {
		t.Error("an empty table knows a host")
	}
	older := httpTrigger("z", "a.example.com", true)
	younger := httpTrigger("a", "a.example.com", true)
	younger.Namespace, younger.CreationTimestamp = "other", metav1.NewTime(testTime.Add(time.Second))
	handler.OnAdd(younger, true)
	handler.OnAdd(older, true)
	for _, name := range []string{"a.example.com", "A.Example.COM", "a.example.com:8080", "a.example.com.", "a.example.com.:80"} {
		if got := host(name); got != "demo/hello" {
			t.Errorf("%s leads to %q, want the older trigger's function", name, got)
		}
	}
	for _, name := range []string{"", "b.example.com", "xa.example.com", "[::1]:8080", "10.0.0.1"} {
		if got := host(name); got != "" {
			t.Errorf("%s leads to %q", name, got)
		}
	}
	moved := older.DeepCopy()
	moved.Spec.FunctionRef.Name, moved.Status.Host = "hi", "b.example.com"
	handler.OnUpdate(older, moved)
	if got := []string{host("a.example.com"), host("b.example.com")}; !cmp.Equal(got, []string{"other/hello", "demo/hi"}) {
		t.Errorf("after a move the hosts lead to %v", got)
	}
	leaving := younger.DeepCopy()
	leaving.DeletionTimestamp = new(metav1.NewTime(testTime))
	handler.OnUpdate(younger, leaving)
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: moved})
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: "what"})
	if len(table.triggers)+len(table.byFunction)+len(table.byHost) != 0 {
		t.Errorf("what is gone is still known: %+v", table)
	}
}

func TestFunctionHost(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, prefixed := r.Header[headerForwardedPrefix]
		w.Header().Set("Prefixed", map[bool]string{true: "yes", false: "no"}[prefixed])
		_, _ = io.WriteString(w, r.Host+" "+r.Header.Get(headerForwardedHost)+" "+r.RequestURI)
	})
	resolver := routeTo(upstream, testTimeout)
	resolver.triggers = tableOf(httpTrigger("web", "hello.example.com", true, "GET"), httpTrigger("api", "", true, "POST"))
	g := startGateway(t, resolver)
	ask := func(method, host, path string) answer {
		req := newRequest(t, method, g.url+path, nil)
		req.Host = host
		return do(t, newClient(t), req)
	}
	for _, path := range []string{"/", "/a/b%2Fc?d=e", "/healthz", "/readyz", "/fn/demo/other"} {
		got := ask("GET", "hello.example.com", path)
		if want := "hello.example.com hello.example.com " + path; got.status != 200 || got.body != want || got.header.Get("Prefixed") != "no" {
			t.Errorf("%s: got %+v, want %q", path, got, want)
		}
	}
	refused := ask("POST", "HELLO.example.com:8080", "/")
	checkRefusal(t, refused, http.StatusMethodNotAllowed, reasonMethodNotAllowed)
	if refused.header.Get("Allow") != "GET" {
		t.Errorf("Allow is %q", refused.header.Get("Allow"))
	}
	if got := ask("POST", "gateway", "/fn/demo/hello/x"); got.status != 200 || got.header.Get("Prefixed") != "yes" {
		t.Errorf("by the path: %+v", got)
	}
	checkRefusal(t, ask("PUT", "gateway", "/fn/demo/hello"), http.StatusMethodNotAllowed, reasonMethodNotAllowed)
	if got := ask("GET", "gateway", "/healthz"); got.body != "ok\n" {
		t.Errorf("the gateway's own health: %+v", got)
	}
	resolver.triggers.put(httpTrigger("web", "hello.example.com", false, "GET"))
	body := checkRefusal(t, ask("GET", "hello.example.com", "/"), http.StatusServiceUnavailable, v1alpha1.ReasonDisabled)
	if !strings.Contains(body.Error, "Trigger web is disabled") {
		t.Errorf("the answer is %q", body.Error)
	}
	resolver.triggers.remove(types.NamespacedName{Namespace: "demo", Name: "web"})
	checkRefusal(t, ask("GET", "hello.example.com", "/"), http.StatusNotFound, reasonNotFound)
}

// TestHostBeforeSync has a gateway that does not know the hosts yet.
func TestHostBeforeSync(t *testing.T) {
	t.Parallel()
	g := startGateway(t, &staticResolver{unready: true})
	checkRefusal(t, get(t, g.url+"/"), http.StatusServiceUnavailable, reasonStarting)
}

func TestCachedResolverTriggers(t *testing.T) {
	t.Parallel()
	trigger := httpTrigger("web", "hello.example.com", true, "GET")
	trigger.TypeMeta = metav1.TypeMeta{Kind: "Trigger", APIVersion: v1alpha1.GroupVersion.String()}
	trigger.UID, trigger.ResourceVersion = "t", "1"
	api := &functionAPI{
		list: v1alpha1.FunctionList{TypeMeta: metav1.TypeMeta{
			Kind: "FunctionList", APIVersion: v1alpha1.GroupVersion.String(),
		}},
		triggers: v1alpha1.TriggerList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1alpha1.Trigger{*trigger}},
		listed:   make(chan struct{}), gate: make(chan struct{}),
	}
	close(api.gate)
	resolver := startResolver(t, api, nil)
	eventually(t, "the resolver is ready", resolver.Ready)
	if fn, ok := resolver.Host("hello.example.com"); !ok || fn != hello {
		t.Errorf("the host leads to %v, %v", fn, ok)
	}
	if r := resolver.Admit(hello, "", newRequest(t, "POST", "http://x/", nil)); r == nil || r.Allow != "GET" {
		t.Errorf("Admit = %+v", r)
	}
}

func TestTrimTrigger(t *testing.T) {
	t.Parallel()
	trigger := cronTrigger(true, "PUT")
	trigger.Spec.Cron.TimeZone = "Etc/UTC"
	trigger.Annotations = map[string]string{"a": "b"}
	trigger.Status = v1alpha1.TriggerStatus{Host: "h.example.com", URL: "http://h.example.com"}
	got, err := trimTrigger(trigger)
	if err != nil {
		t.Fatal(err)
	}
	want := cronTrigger(true, "PUT")
	want.Spec.Cron.Schedule = ""
	want.Status.Host = "h.example.com"
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
