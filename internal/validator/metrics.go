// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what a Gate counts. No label holds anything that a user chose.
type metrics struct {
	verdicts  *prometheus.CounterVec
	softFails *prometheus.CounterVec
	seconds   prometheus.Histogram
	inFlight  prometheus.Gauge
}

// newMetrics makes the metrics and registers them, unless registry is nil.
func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sless_code_review_verdicts_total",
			Help: "Answers of the code review by outcome, and whether the verdict had been kept from before.",
		}, []string{"outcome", "kept"}),
		softFails: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sless_code_review_soft_fails_total",
			Help: "Reviews that ended without a verdict, by cause, whatever the failure policy makes of them.",
		}, []string{"cause"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "sless_code_review_model_seconds",
			Help:    "How long the model took to answer, or to fail.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120},
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sless_code_review_model_calls_in_flight",
			Help: "Questions that the model works on now.",
		}),
	}
	if registry != nil {
		registry.MustRegister(m.verdicts, m.softFails, m.seconds, m.inFlight)
	}
	return m
}

func (m *metrics) count(outcome Outcome, kept bool) {
	label := "false"
	if kept {
		label = "true"
	}
	m.verdicts.WithLabelValues(string(outcome), label).Inc()
}

func (m *metrics) asked(took time.Duration) { m.seconds.Observe(took.Seconds()) }
