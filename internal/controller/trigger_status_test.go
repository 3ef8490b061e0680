// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/testutil"
)

func functionWith(ready metav1.Condition, more ...metav1.Condition) *v1alpha1.Function {
	fn := testutil.MakeFunction("cart", "shop").Obj()
	for _, c := range append(more, ready) {
		meta.SetStatusCondition(&fn.Status.Conditions, c)
	}
	return fn
}

var (
	readyFn = functionWith(metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
	})
	buildingFn = functionWith(metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonBuilding,
	})
	brokenFn = functionWith(
		metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonBuildFailed},
		metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonBuildFailed},
	)
)

// triggerSummary is "Ready Reconciling Stalled active url host".
func triggerSummary(status v1alpha1.TriggerStatus) string {
	of := func(kind string) metav1.Condition {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
			return *c
		}
		return metav1.Condition{}
	}
	ready := of(v1alpha1.ConditionReady)
	return fmt.Sprintf("%s/%s %s %s %v %s %s", ready.Status, ready.Reason, of(v1alpha1.ConditionReconciling).Status,
		of(v1alpha1.ConditionStalled).Status, *status.Active, status.URL, status.Host)
}

func TestComputeTriggerStatus(t *testing.T) {
	t.Parallel()
	web := func() *testutil.TriggerWrapper { return testutil.MakeTrigger("web", "shop", "cart") }
	off := func(w *testutil.TriggerWrapper) *v1alpha1.Trigger {
		trigger := w.Obj()
		trigger.Spec.Enabled = new(false)
		return trigger
	}
	tests := map[string]struct {
		scope triggerScope
		fault error
		want  string
	}{
		"ready": {
			scope: triggerScope{trigger: web().Obj(), fn: readyFn},
			want:  "True/Ready False False true http://fn/fn/shop/cart ",
		},
		"function on its way": {
			scope: triggerScope{trigger: web().Obj(), fn: buildingFn},
			want:  "Unknown/Pending True False true http://fn/fn/shop/cart ",
		},
		"function broken": {
			scope: triggerScope{trigger: web().Obj(), fn: brokenFn},
			want:  "False/Pending False True true http://fn/fn/shop/cart ",
		},
		"no function": {
			scope: triggerScope{trigger: web().Obj()},
			want:  "False/FunctionNotFound False True false  ",
		},
		"switched off": {
			scope: triggerScope{trigger: off(web()), fn: readyFn},
			want:  "False/Disabled False True false http://fn/fn/shop/cart ",
		},
		"host": {
			scope: triggerScope{trigger: web().Host("a.example.com").Obj(), fn: readyFn, host: "a.example.com"},
			want:  "True/Ready False False true http://a.example.com a.example.com",
		},
		"host that somebody else has": {
			scope: triggerScope{trigger: web().Host("a.example.com").Obj(), fn: readyFn},
			fault: stalled(v1alpha1.ConditionReady, v1alpha1.ReasonHostConflict, "belongs to another"),
			want:  "False/HostConflict False True false  ",
		},
		"host, and the API server is away": {
			scope: triggerScope{trigger: withHost(web().Host("a.example.com").Obj()), fn: readyFn},
			fault: errors.New("no answer"),
			want:  "False/InternalError True False false http://a.example.com a.example.com",
		},
		"cron": {
			scope: triggerScope{trigger: web().Cron("* * * * *", "").Obj(), fn: readyFn},
			want:  "True/Ready False False true  ",
		},
		"cron before the first deployment": {
			scope: triggerScope{trigger: web().Cron("* * * * *", "").Obj(), fn: buildingFn},
			fault: waiting(v1alpha1.ConditionReady, v1alpha1.ReasonPending, "not deployed yet"),
			want:  "Unknown/Pending True False false  ",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.scope
			s.now = testNow
			s.trigger = s.trigger.DeepCopy()
			s.trigger.Generation = 2
			gateway := config.Gateway{ExternalURL: "http://fn"}
			status := computeTriggerStatus(&s, asPhaseError(tc.fault), gateway)
			if got := triggerSummary(status); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if status.ObservedGeneration != 2 || len(status.Conditions) != 3 {
				t.Errorf("generation %d, conditions %v", status.ObservedGeneration, status.Conditions)
			}
			s.trigger.Status = status
			s.now = testNow.Add(time.Hour)
			if diff := cmp.Diff(status, computeTriggerStatus(&s, asPhaseError(tc.fault), gateway)); diff != "" {
				t.Errorf("a second look changes the status:\n%s", diff)
			}
		})
	}
}

// withHost is a Trigger for which an earlier pass got the host.
func withHost(t *v1alpha1.Trigger) *v1alpha1.Trigger {
	t.Status.Host, t.Status.URL = t.Spec.HTTP.Host, "http://"+t.Spec.HTTP.Host
	return t
}

func TestComputeTriggerStatusRuns(t *testing.T) {
	t.Parallel()
	s := &triggerScope{
		trigger: testutil.MakeTrigger("c", "shop", "cart").Cron("0 * * * *", "").Obj(), fn: readyFn, now: testNow,
		nextTick: testNow.Add(time.Hour),
	}
	pass := func() *metav1.Condition {
		s.trigger.Status = computeTriggerStatus(s, nil, config.Gateway{})
		if !meta.IsStatusConditionTrue(s.trigger.Status.Conditions, v1alpha1.ConditionReady) {
			t.Error("Ready is not True")
		}
		return meta.FindStatusCondition(s.trigger.Status.Conditions, v1alpha1.ConditionLastRunSucceeded)
	}
	if c := pass(); c != nil {
		t.Errorf("before the first run there is %+v", c)
	}
	if s.trigger.Status.LastScheduleTime != nil || !s.trigger.Status.NextScheduleTime.Time.Equal(s.nextTick) {
		t.Errorf("times are %+v", s.trigger.Status)
	}
	s.run, s.lastTick = &plan.CronRun{Job: "c-1", Failed: true, Message: "CallFailed: the answer was 500"}, testNow
	c := pass()
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonLastRunFailed ||
		!strings.Contains(c.Message, "run c-1: CallFailed") {
		t.Errorf("after a failed run there is %+v", c)
	}
	s.run = nil
	if again := pass(); again == nil || again.Message != c.Message {
		t.Errorf("once the run was cleaned up there is %+v", again)
	}
	s.run = &plan.CronRun{Job: "c-2"}
	first := *pass()
	s.run = &plan.CronRun{Job: "c-3"}
	if second := *pass(); first.Status != metav1.ConditionTrue || second != first {
		t.Errorf("two good runs: %+v, %+v", first, second)
	}
	s.trigger.Spec.Enabled, s.nextTick = new(false), time.Time{}
	s.trigger.Status = computeTriggerStatus(s, nil, config.Gateway{})
	if s.trigger.Status.NextScheduleTime != nil || s.trigger.Status.LastScheduleTime == nil {
		t.Errorf("switched off, the times are %+v", s.trigger.Status)
	}
}

func TestTriggerHost(t *testing.T) {
	t.Parallel()
	plain := testutil.MakeTrigger("web", "shop", "cart").Obj()
	named := testutil.MakeTrigger("web", "shop", "cart").Host("a.example.com").Obj()
	cron := testutil.MakeTrigger("web", "shop", "cart").Cron("* * * * *", "").Obj()
	path := config.Gateway{ExternalURL: "https://fn.example.com", FunctionDomain: "x.example.com"}
	domain := config.Gateway{FunctionDomain: "x.example.com"}
	tests := map[string]struct {
		trigger     *v1alpha1.Trigger
		gateway     config.Gateway
		wantHost    string
		wantDerived bool
		wantFnURL   string
	}{
		"path":             {trigger: plain, gateway: path, wantFnURL: "https://fn.example.com/fn/shop/cart"},
		"named host":       {trigger: named, gateway: path, wantHost: "a.example.com", wantFnURL: "https://fn.example.com/fn/shop/cart"},
		"cron":             {trigger: cron, gateway: domain},
		"domain":           {trigger: plain, gateway: domain, wantHost: "cart-shop.x.example.com", wantDerived: true, wantFnURL: "http://cart-shop.x.example.com"},
		"domain and named": {trigger: named, gateway: domain, wantHost: "a.example.com"},
		"domain with TLS": {
			trigger: plain, gateway: config.Gateway{FunctionDomain: "x.example.com", IngressTLSSecretName: "wildcard"},
			wantHost: "cart-shop.x.example.com", wantDerived: true, wantFnURL: "https://cart-shop.x.example.com",
		},
		"domain behind a proxy with TLS": {
			trigger: plain, gateway: config.Gateway{FunctionDomain: "x.example.com", HostScheme: "https"},
			wantHost: "cart-shop.x.example.com", wantDerived: true, wantFnURL: "https://cart-shop.x.example.com",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, derived := triggerHost(tc.trigger, tc.gateway)
			if host != tc.wantHost || derived != tc.wantDerived {
				t.Errorf("triggerHost = %q, %v", host, derived)
			}
			s := newFunctionScope(testutil.MakeFunction("cart", "shop").Obj(), testNow)
			lost := tc.trigger.DeepCopy()
			s.triggers = []v1alpha1.Trigger{*lost}
			if got := functionURL(s, tc.gateway); tc.wantDerived && got != "" {
				t.Errorf("functionURL = %q though the Trigger does not have the host", got)
			}
			had := tc.trigger.DeepCopy()
			had.Status.Host = tc.wantHost
			s.triggers = []v1alpha1.Trigger{*lost, *had}
			if got := functionURL(s, tc.gateway); got != tc.wantFnURL {
				t.Errorf("functionURL = %q, want %q", got, tc.wantFnURL)
			}
		})
	}
}

func TestReservedHost(t *testing.T) {
	t.Parallel()
	gateway := config.Gateway{
		Namespace: "sless-system", ServiceName: "sless-gateway", ExternalURL: "https://Fn.example.com.:8443", FunctionDomain: "run.example.com",
	}
	for host, want := range map[string]string{
		"cart.example.com":                   "",
		"x.fn.example.com":                   "",
		"fn.example.com":                     "own address",
		"sless-gateway.sless-system":         "inside the cluster",
		"sless-gateway.sless-system.svc":     "inside the cluster",
		"sless-gateway.sless-system.svc.a.b": "inside the cluster",
		"sless-gateway.sless-systems.svc":    "",
		"run.example.com":                    "domain of functions",
		"pay-bank.run.example.com":           "this one is cart-shop.run.example.com",
		"cart-shop.run.example.com":          "",
		"overrun.example.com":                "",
	} {
		got := reservedHost(testutil.MakeTrigger("web", "shop", "cart").Host(host).Obj(), host, gateway)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("reservedHost(%s) = %q, want %q", host, got, want)
		}
	}
}

func TestReservedHostByTheListOfAllowedOnes(t *testing.T) {
	t.Parallel()
	gateway := config.Gateway{
		Namespace: "sless-system", ServiceName: "sless-gateway", ExternalURL: "https://fn.example.com", FunctionDomain: "run.example.com",
		AllowedHosts: []config.AllowedHost{{Host: "*.shop.example.com", Namespaces: []string{"shop"}}, {Host: "*.example.com", Namespaces: []string{"ops"}}},
	}
	const notAllowed = "gateway.allowedHosts"
	for _, tc := range []struct{ namespace, host, want string }{
		{"shop", "a.shop.example.com", ""},
		{"shop", "login.example.com", notAllowed},
		{"bank", "a.shop.example.com", notAllowed},
		{"bank", "cart-bank.run.example.com", ""}, // its own in the domain of functions needs no entry
		{"ops", "login.example.com", ""},
		// The list gives nobody what nobody may have.
		{"ops", "fn.example.com", "own address"},
		{"ops", "cart-shop.run.example.com", "domain of functions"},
	} {
		got := reservedHost(testutil.MakeTrigger("web", tc.namespace, "cart").Host(tc.host).Obj(), tc.host, gateway)
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("reservedHost(%s in %s) = %q, want %q", tc.host, tc.namespace, got, tc.want)
		}
	}
}

func TestNextTick(t *testing.T) {
	t.Parallel()
	schedule, err := plan.ParseSchedule(&v1alpha1.CronTrigger{Schedule: "* * * * *"})
	if err != nil {
		t.Fatal(err)
	}
	tick := testNow // a full minute
	earlier, later := tick.Add(-time.Minute), tick.Add(time.Minute)
	tests := map[string]struct {
		now, last, want time.Time
	}{
		"before the tick":                    {now: tick.Add(-time.Second), last: earlier, want: tick},
		"the tick has come, nothing is told": {now: tick.Add(time.Second / 2), last: earlier, want: tick},
		"the CronJob tells that it fired":    {now: tick.Add(time.Second / 2), last: tick, want: later},
		"it does not tell in time":           {now: tick.Add(tickDelay), last: earlier, want: later},
		"it never fired":                     {now: tick.Add(-time.Second), want: tick},
		"its clock is ahead":                 {now: tick.Add(-2 * time.Second), last: tick, want: later},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := nextTick(schedule, tc.now, earlier, tc.last); !got.Equal(tc.want) {
				t.Errorf("nextTick = %s, want %s", got, tc.want)
			}
		})
	}
}
