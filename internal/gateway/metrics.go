// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Labels of the gateway's metrics.
const (
	labelNamespace = "namespace"
	labelFunction  = "function"
	labelCode      = "code"
)

// otherCode stands for status codes that HTTP does not define, so that a function cannot make up series.
const otherCode = "other"

// durationBuckets reach from a warm call to the longest timeout, in seconds.
var durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900}

// Metrics are what the gateway counts. The labels namespace and function are empty for calls of functions that do not
// exist, and the series of a deleted function are dropped, and once more after each call that outlives it, so that nobody
// outside can make the gateway's memory grow.
type Metrics struct {
	requests *prometheus.CounterVec
	aborted  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	pending  *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	perFunction := []string{labelNamespace, labelFunction}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sless_gateway_requests_total",
			Help: "Calls by status code. 499 means that the client went away before the answer.",
		}, append(perFunction, labelCode)),
		aborted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sless_gateway_aborted_responses_total",
			Help: "Answers that broke off after their header was sent.",
		}, perFunction),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "sless_gateway_request_duration_seconds",
			Help:    "Time from a call to the end of its answer, upgraded connections excepted.",
			Buckets: durationBuckets,
		}, perFunction),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sless_gateway_in_flight_requests",
			Help: "Calls that were accepted and have not ended.",
		}, perFunction),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sless_gateway_pending_requests",
			Help: "Calls that were accepted and to which the function has not begun to answer.",
		}, perFunction),
	}
	registry.MustRegister(m.requests, m.aborted, m.duration, m.inFlight, m.pending)
	return m
}

// Forget drops the series of a function that was deleted.
func (m *Metrics) Forget(fn types.NamespacedName) {
	labels := prometheus.Labels{labelNamespace: fn.Namespace, labelFunction: fn.Name}
	m.requests.DeletePartialMatch(labels)
	m.aborted.DeletePartialMatch(labels)
	m.duration.DeletePartialMatch(labels)
	m.inFlight.DeletePartialMatch(labels)
	m.pending.DeletePartialMatch(labels)
}

// observation is what is measured of one call. It is used by the call's goroutine alone.
type observation struct {
	metrics *Metrics
	started time.Time
	fn      types.NamespacedName // zero until the function is known to exist

	inFlight, pending prometheus.Gauge
}

func (m *Metrics) begin(now time.Time) *observation {
	return &observation{metrics: m, started: now}
}

// exists says that the function exists, so that it may be a label.
func (o *observation) exists(fn types.NamespacedName) {
	o.fn = fn
}

// accepted says that the call goes to the function.
func (o *observation) accepted() {
	o.inFlight = o.metrics.inFlight.WithLabelValues(o.fn.Namespace, o.fn.Name)
	o.pending = o.metrics.pending.WithLabelValues(o.fn.Namespace, o.fn.Name)
	o.inFlight.Inc()
	o.pending.Inc()
}

// answered says that the function has begun to answer. Only the first time counts.
func (o *observation) answered() {
	if o.pending != nil {
		o.pending.Dec()
		o.pending = nil
	}
}

// end closes the observation. aborted means that the answer broke off.
func (o *observation) end(now time.Time, status int, aborted bool) {
	o.answered()
	if o.inFlight != nil {
		o.inFlight.Dec()
	}
	o.metrics.requests.WithLabelValues(o.fn.Namespace, o.fn.Name, codeLabel(status)).Inc()
	if aborted && status != statusClientGone {
		o.metrics.aborted.WithLabelValues(o.fn.Namespace, o.fn.Name).Inc()
	}
	if status != http.StatusSwitchingProtocols {
		o.metrics.duration.WithLabelValues(o.fn.Namespace, o.fn.Name).Observe(now.Sub(o.started).Seconds())
	}
}

func codeLabel(status int) string {
	if status != statusClientGone && http.StatusText(status) == "" {
		return otherCode
	}
	return strconv.Itoa(status)
}
