// SPDX-License-Identifier: Apache-2.0

package invoke

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the numbers of one function container.
type Metrics struct {
	requests *prometheus.CounterVec
	duration prometheus.Histogram
	inFlight prometheus.Gauge
	restarts *prometheus.CounterVec
	load     prometheus.Gauge
}

// NewMetrics returns metrics that are not registered yet.
func NewMetrics() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sless_function_requests_total",
			Help: "Calls by the status that the caller got; 499 when the caller had gone away.",
		}, []string{"code"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "sless_function_request_duration_seconds",
			Help:    "Time from the arrival of a call to the end of its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900},
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sless_function_in_flight_requests",
			Help: "Calls that hold one of the function's concurrency slots.",
		}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sless_function_worker_restarts_total",
			Help: "Replaced language workers by cause: timeout or crash.",
		}, []string{"cause"}),
		load: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sless_function_load_seconds",
			Help: "Time from the start of the newest language worker to a loaded handler.",
		}),
	}
}

// Register adds the metrics to a registry.
func (m *Metrics) Register(registry prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.inFlight, m.restarts, m.load} {
		if err := registry.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// Loaded records how long the newest worker took to load the handler.
func (m *Metrics) Loaded(d time.Duration) { m.load.Set(d.Seconds()) }

// Restarted counts a replaced worker.
func (m *Metrics) Restarted(cause string) { m.restarts.WithLabelValues(cause).Inc() }

func (m *Metrics) observe(code int, d time.Duration) {
	m.requests.WithLabelValues(strconv.Itoa(code)).Inc()
	m.duration.Observe(d.Seconds())
}
