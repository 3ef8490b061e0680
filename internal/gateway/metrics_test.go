// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
)

// metricValue returns the value of a counter or gauge, or the count of a histogram. code is "" for metrics without it.
// A series that does not exist is -1.
func metricValue(t testing.TB, g *testGateway, name string, fn types.NamespacedName, code string) float64 {
	t.Helper()
	families, err := g.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := labelsOf(m)
			if labels[labelNamespace] == fn.Namespace && labels[labelFunction] == fn.Name && labels[labelCode] == code {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, pair := range m.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	disabled := types.NamespacedName{Namespace: "demo", Name: "off"}
	entered, release := make(chan struct{}), make(chan struct{})
	host := startRawUpstream(t, func(c rawCall) {
		switch c.req.URL.Path {
		case "/wait":
			entered <- struct{}{}
			<-release
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		case "/odd":
			c.send("HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n")
		}
	})
	resolver := routeTo(host, testTimeout)
	resolver.refusals = map[types.NamespacedName]*Refusal{disabled: {Status: 503, Reason: "Disabled", Message: "off"}}
	g := startGateway(t, resolver)
	value := func(name string, fn types.NamespacedName, code string) float64 {
		t.Helper()
		return metricValue(t, g, "sless_gateway_"+name, fn, code)
	}

	done := make(chan answer)
	go func() { done <- get(t, g.url+"/fn/demo/hello/wait") }()
	receive(t, entered)
	if inFlight, pending := value("in_flight_requests", hello, ""), value("pending_requests", hello, ""); inFlight != 1 ||
		pending != 1 {
		t.Errorf("in flight %v, pending %v, want 1 and 1", inFlight, pending)
	}
	close(release)
	receive(t, done)
	get(t, g.url+"/fn/demo/hello/odd")
	get(t, g.url+"/fn/demo/off")
	for _, path := range []string{"/fn/made/up", "/fn/made/up2", "/fn/x", "/fn/A/b"} {
		get(t, g.url+path)
	}
	eventually(t, "all calls are counted", func() bool {
		return value("requests_total", types.NamespacedName{}, "404") == 4 && value("requests_total", hello, "200") == 1
	})
	for _, want := range []struct {
		name  string
		fn    types.NamespacedName
		code  string
		value float64
	}{
		{"requests_total", hello, "200", 1},
		{"requests_total", hello, otherCode, 1},
		{"requests_total", disabled, "503", 1},
		{"request_duration_seconds", hello, "", 2},
		{"request_duration_seconds", types.NamespacedName{}, "", 4},
		{"in_flight_requests", hello, "", 0},
		{"pending_requests", hello, "", 0},
		{"aborted_responses_total", hello, "", -1},
		{"requests_total", types.NamespacedName{Namespace: "made", Name: "up"}, "404", -1},
	} {
		if got := value(want.name, want.fn, want.code); got != want.value {
			t.Errorf("%s{%s, %q} = %v, want %v", want.name, want.fn, want.code, got, want.value)
		}
	}
}

// TestACallThatOutlivesItsFunctionLeavesNoSeries deletes a function while it is called.
func TestACallThatOutlivesItsFunctionLeavesNoSeries(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	host := startUpstream(t, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})
	resolver := &wakingResolver{staticResolver: routeTo(host, testTimeout)}
	g := startGateway(t, resolver)
	done := make(chan answer)
	go func() { done <- get(t, g.url+"/fn/demo/hello") }()
	receive(t, entered)
	resolver.refuse(functionNotFound(hello))
	g.server.proxy.metrics.Forget(hello) // as a CachedResolver does
	close(release)
	if a := receive(t, done); a.status != http.StatusOK {
		t.Errorf("got %d %q", a.status, a.body)
	}
	if err := g.stop(); err != nil { // waits for the end of the call
		t.Fatal(err)
	}
	families, err := g.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if labels := labelsOf(m); labels[labelFunction] == hello.Name {
				t.Errorf("%s has a series of the deleted function", family.GetName())
			}
		}
	}
}

func TestMetricsForget(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	other := types.NamespacedName{Namespace: "demo", Name: "other"}
	for _, fn := range []types.NamespacedName{hello, other} {
		o := m.begin(testTime)
		o.exists(fn)
		o.accepted()
		o.end(testTime, 200, true)
	}
	m.Forget(hello)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if n := len(family.GetMetric()); n != 1 || labelsOf(family.GetMetric()[0])[labelFunction] != other.Name {
			t.Errorf("%s has %d series", family.GetName(), n)
		}
	}
	if len(families) != 5 {
		t.Errorf("there are %d metrics, want 5", len(families))
	}
}
