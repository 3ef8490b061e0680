// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/testutil"
)

func TestComputeTriggerStatus(t *testing.T) {
	t.Parallel()
	ready := testutil.MakeFunction("cart", "shop").Obj()
	meta.SetStatusCondition(&ready.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
	})
	unready := testutil.MakeFunction("cart", "shop").Obj()
	meta.SetStatusCondition(&unready.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonBuildFailed,
	})
	http := v1alpha1.TriggerSpec{Type: v1alpha1.TriggerTypeHTTP, FunctionRef: v1alpha1.FunctionReference{Name: "cart"}}
	with := func(change func(*v1alpha1.TriggerSpec)) v1alpha1.TriggerSpec {
		spec := *http.DeepCopy()
		change(&spec)
		return spec
	}
	tests := map[string]struct {
		spec        v1alpha1.TriggerSpec
		fn          *v1alpha1.Function
		wantReason  string
		wantMessage string
		wantURL     string
	}{
		"ready":              {spec: http, fn: ready, wantReason: v1alpha1.ReasonReady, wantURL: "http://fn/fn/shop/cart"},
		"function not ready": {spec: http, fn: unready, wantReason: v1alpha1.ReasonPending, wantMessage: "BuildFailed", wantURL: "http://fn/fn/shop/cart"},
		"no function":        {spec: http, wantReason: v1alpha1.ReasonFunctionNotFound, wantMessage: "cart"},
		"cron": {fn: ready, wantReason: v1alpha1.ReasonNotImplemented, wantMessage: "cron",
			spec: with(func(s *v1alpha1.TriggerSpec) { s.Type = v1alpha1.TriggerTypeCron })},
		"host": {fn: ready, wantReason: v1alpha1.ReasonNotImplemented, wantMessage: "host", wantURL: "http://fn/fn/shop/cart",
			spec: with(func(s *v1alpha1.TriggerSpec) { s.HTTP = &v1alpha1.HTTPTrigger{Host: "a.example.com"} })},
		"switched off": {fn: ready, wantReason: v1alpha1.ReasonNotImplemented, wantMessage: "enabled", wantURL: "http://fn/fn/shop/cart",
			spec: with(func(s *v1alpha1.TriggerSpec) { s.Enabled = new(false) })},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trigger := &v1alpha1.Trigger{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: tc.spec}
			status := computeTriggerStatus(trigger, tc.fn, config.Gateway{ExternalURL: "http://fn"}, testNow)
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
			if c.Reason != tc.wantReason || !strings.Contains(c.Message, tc.wantMessage) {
				t.Errorf("Ready is %s: %q, want %s with %q", c.Reason, c.Message, tc.wantReason, tc.wantMessage)
			}
			if status.URL != tc.wantURL || *status.Active != (tc.wantReason == v1alpha1.ReasonReady) {
				t.Errorf("url %q, active %v", status.URL, *status.Active)
			}
			trigger.Status = status
			again := computeTriggerStatus(trigger, tc.fn, config.Gateway{ExternalURL: "http://fn"}, testNow.Add(1))
			if len(again.Conditions) != 3 || !meta.IsStatusConditionPresentAndEqual(again.Conditions, "Ready", c.Status) {
				t.Errorf("a second look gives %v", again.Conditions)
			}
		})
	}
}
