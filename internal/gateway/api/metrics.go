// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what the API port counts. No label holds anything that a client chose.
type Metrics struct {
	requests *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sless_gateway_api_requests_total",
		Help: "Requests to the API port by route and status code. The route is empty before authentication.",
	}, []string{"route", "code"})}
	registry.MustRegister(m.requests)
	return m
}

func (m *Metrics) count(pattern string, status int) {
	if status == 0 {
		status = http.StatusInternalServerError // a handler that broke off
	}
	if m != nil {
		m.requests.WithLabelValues(pattern, strconv.Itoa(status)).Inc()
	}
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (r *recorder) Unwrap() http.ResponseWriter {
	return r.ResponseWriter
}

// WriteHeader sends the header.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}
