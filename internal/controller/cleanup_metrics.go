// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label kind.
const (
	cleanupObjects = "object"
	cleanupImages  = "image"
)

// cleanupMetrics are what the cleaning counts. No label names a namespace, so that there are always as many series.
type cleanupMetrics struct {
	removed  *prometheus.CounterVec
	bytes    prometheus.Counter
	failures *prometheus.CounterVec
	unneeded *prometheus.GaugeVec
	blocked  *prometheus.GaugeVec
	passes   *prometheus.CounterVec
}

func newCleanupMetrics(registry prometheus.Registerer) (*cleanupMetrics, error) {
	kind := []string{"kind"}
	m := &cleanupMetrics{
		removed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sless_cleanup_removed_total",
			Help: "Archives of code removed from the object store, and images removed from the registry.",
		}, kind),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sless_cleanup_removed_bytes_total",
			Help: "Bytes of the objects that were removed from the object store.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sless_cleanup_failures_total",
			Help: "Removals that failed. They are tried again.",
		}, kind),
		unneeded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sless_cleanup_unneeded",
			Help: "What the last pass has found that no Function needs and that is not removed yet.",
		}, kind),
		blocked: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sless_cleanup_blocked",
			Help: "1 while nothing is removed, because the bucket is another installation's or the registry refuses to delete.",
		}, kind),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sless_cleanup_passes_total",
			Help: "Passes over all namespaces, by result.",
		}, []string{"result"}),
	}
	for _, collector := range []prometheus.Collector{m.removed, m.bytes, m.failures, m.unneeded, m.blocked, m.passes} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("registering the metrics of the clean-up: %w", err)
		}
	}
	for _, kind := range []string{cleanupObjects, cleanupImages} {
		m.removed.WithLabelValues(kind)
		m.failures.WithLabelValues(kind)
		m.blocked.WithLabelValues(kind).Set(0)
	}
	return m, nil
}

func (m *cleanupMetrics) passed(err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.passes.WithLabelValues(result).Inc()
}

// failed counts removals that failed, each once.
func (m *cleanupMetrics) failed(kind string, err error) {
	if err != nil && !errors.Is(err, errBlocked) {
		m.failures.WithLabelValues(kind).Inc()
	}
}
