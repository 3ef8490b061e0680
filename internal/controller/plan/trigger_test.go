// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

func TestDisabled(t *testing.T) {
	t.Parallel()
	make := func(name string, enabled *bool, deleted bool) v1alpha1.Trigger {
		trigger := testutil.MakeTrigger(name, "shop", "cart").Obj()
		trigger.Spec.Enabled = enabled
		if deleted {
			trigger.DeletionTimestamp = new(metav1.Now())
		}
		return *trigger
	}
	on, off := new(true), new(false)
	tests := map[string]struct {
		triggers []v1alpha1.Trigger
		want     string
	}{
		"no triggers":                       {},
		"one, on by default":                {triggers: []v1alpha1.Trigger{make("a", nil, false)}},
		"one, off":                          {triggers: []v1alpha1.Trigger{make("a", off, false)}, want: "no Trigger of this Function is enabled: a"},
		"one of two off":                    {triggers: []v1alpha1.Trigger{make("a", off, false), make("b", on, false)}},
		"both off, named in order":          {triggers: []v1alpha1.Trigger{make("b", off, false), make("a", off, false)}, want: "no Trigger of this Function is enabled: a, b"},
		"the enabled one is being deleted":  {triggers: []v1alpha1.Trigger{make("a", off, false), make("b", on, true)}, want: "no Trigger of this Function is enabled: a"},
		"the disabled one is being deleted": {triggers: []v1alpha1.Trigger{make("a", off, true)}},
		"many": {
			triggers: []v1alpha1.Trigger{
				make("a", off, false), make("b", off, false), make("c", off, false), make("d", off, false),
				make("e", off, false), make("f", off, false), make("g", off, false),
			},
			want: "no Trigger of this Function is enabled: a, b, c, d, e, and 2 more",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, disabled := Disabled(tc.triggers)
			if got != tc.want || disabled != (tc.want != "") {
				t.Errorf("Disabled = %q, %v, want %q", got, disabled, tc.want)
			}
		})
	}
}

func TestHostHolder(t *testing.T) {
	t.Parallel()
	claim := func(namespace, name string, age time.Duration, deleted bool) v1alpha1.Trigger {
		trigger := testutil.MakeTrigger(name, namespace, "cart").Host("a.example.com").Obj()
		trigger.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age))
		if deleted {
			trigger.DeletionTimestamp = new(metav1.Now())
		}
		return *trigger
	}
	tests := map[string]struct {
		claims []v1alpha1.Trigger
		want   string
	}{
		"nobody":                          {},
		"only one":                        {claims: []v1alpha1.Trigger{claim("n", "a", 0, false)}, want: "n/a"},
		"the older":                       {claims: []v1alpha1.Trigger{claim("n", "a", 0, false), claim("z", "z", time.Second, false)}, want: "z/z"},
		"the older is being deleted":      {claims: []v1alpha1.Trigger{claim("n", "a", 0, false), claim("z", "z", time.Second, true)}, want: "n/a"},
		"same age, first by namespace":    {claims: []v1alpha1.Trigger{claim("n", "a", 0, false), claim("m", "z", 0, false)}, want: "m/z"},
		"same age and namespace, by name": {claims: []v1alpha1.Trigger{claim("n", "b", 0, false), claim("n", "a", 0, false)}, want: "n/a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if holder := HostHolder(tc.claims); holder != nil {
				got = holder.Namespace + "/" + holder.Name
			}
			if got != tc.want {
				t.Errorf("HostHolder = %q, want %q", got, tc.want)
			}
		})
	}
}
