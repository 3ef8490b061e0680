// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

func TestTriggerConcernsFunction(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*v1alpha1.Trigger)
		want   bool
	}{
		"nothing":                   {change: func(*v1alpha1.Trigger) {}},
		"its status":                {change: func(t *v1alpha1.Trigger) { t.Status.URL = "http://a.example.com" }},
		"the host that it has":      {change: func(t *v1alpha1.Trigger) { t.Status.Host = "cart-shop.x.example.com" }, want: true},
		"its methods":               {change: func(t *v1alpha1.Trigger) { t.Spec.HTTP.Methods = []v1alpha1.HTTPMethod{"GET"} }},
		"its host for another":      {change: func(t *v1alpha1.Trigger) { t.Spec.HTTP.Host = "b.example.com" }},
		"its host for the domain's": {change: func(t *v1alpha1.Trigger) { t.Spec.HTTP = nil }, want: true},
		"off":                       {change: func(t *v1alpha1.Trigger) { t.Spec.Enabled = new(false) }, want: true},
		"another Function":          {change: func(t *v1alpha1.Trigger) { t.Spec.FunctionRef.Name = "other" }, want: true},
		"being deleted":             {change: func(t *v1alpha1.Trigger) { t.DeletionTimestamp = new(metav1.Now()) }, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := testutil.MakeTrigger("web", "shop", "cart").Host("a.example.com").Obj()
			after := before.DeepCopy()
			tc.change(after)
			for old, changed := range map[*v1alpha1.Trigger]*v1alpha1.Trigger{before: after, after: before} {
				got := triggerConcernsFunction().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: changed})
				if got != tc.want {
					t.Errorf("concerns the Function: %v, want %v", got, tc.want)
				}
			}
		})
	}
}
