// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/naeel/sless/api/v1alpha1"
)

func TestLatencyRow(t *testing.T) {
	t.Parallel()
	read := func(text string) map[string]*latency {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]*latency{}
		addLatencies(all, families[webhookLatency])
		return all
	}
	histogram := func(within1, within10, count, sum string) string {
		return "# TYPE " + webhookLatency + " histogram\n" +
			webhookLatency + `_bucket{webhook="/v",le="0.001"} ` + within1 + "\n" +
			webhookLatency + `_bucket{webhook="/v",le="0.010000000000000002"} ` + within10 + "\n" +
			webhookLatency + `_bucket{webhook="/v",le="+Inf"} ` + count + "\n" +
			webhookLatency + `_sum{webhook="/v"} ` + sum + "\n" +
			webhookLatency + `_count{webhook="/v"} ` + count + "\n"
	}
	before, after := read(histogram("1", "2", "2", "0.01")), read(histogram("51", "101", "102", "0.21"))
	got, ok := after["/v"].row("/v", before["/v"])
	if want := []string{"/v", "100", "2.00 ms", "50.00 %", "99.00 %"}; !ok || !cmp.Equal(got, want) {
		t.Errorf("row is %v, want %v", got, want)
	}
	if _, ok := after["/v"].row("/v", after["/v"]); ok {
		t.Error("a webhook that nobody asked has a row")
	}
	if got, _ := after["/v"].row("/v", nil); got[1] != "102" {
		t.Errorf("without an earlier look there are %s calls, want 102", got[1])
	}
}

// TestApplyKinds pins what makes the API server ask the webhooks or not: whether the spec changed.
func TestApplyKinds(t *testing.T) {
	t.Parallel()
	stored := &v1alpha1.Function{Spec: v1alpha1.FunctionSpec{Runtime: "python3.11"}}
	kinds := applyKinds(stored)
	for i, wantChanged := range []bool{false, true, true} {
		one, two := kinds[i].make(1), kinds[i].make(2)
		if cmp.Equal(one, two) {
			t.Errorf("%s: two applies are the same", kinds[i].name)
		}
		if got := !cmp.Equal(one.Spec, stored.Spec); got != wantChanged {
			t.Errorf("%s: the spec changed is %v", kinds[i].name, got)
		}
	}
}
