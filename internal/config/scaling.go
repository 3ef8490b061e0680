// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"
)

// Scaling says where KEDA and its HTTP add-on are, and how functions that scale are treated. It has no effect on a cluster
// without them.
type Scaling struct {
	// Interceptor is host:port of the add-on's proxy, to which the gateway sends the calls of functions that scale
	// (keda-add-ons-http-interceptor-proxy.keda.svc:8080 by default).
	Interceptor string `json:"interceptor"`
	// Scaler is host:port of the add-on's scaler, which KEDA asks (keda-add-ons-http-external-scaler.keda:9090 by default).
	Scaler string `json:"scaler"`
	// Namespace is where the interceptor runs (keda by default). Functions admit calls from there.
	Namespace string `json:"namespace"`
	// StartupTimeoutSeconds is how long a call waits for the first replica (60 by default; 1 to 600).
	StartupTimeoutSeconds int32 `json:"startupTimeoutSeconds"`
	// PollingIntervalSeconds is how often KEDA looks whether a function is idle (5 by default). It adds to idleSeconds.
	PollingIntervalSeconds int32 `json:"pollingIntervalSeconds"`
	// MaxWaiting is how many calls may wait for the first replica of one function (200 by default). Further ones get 429.
	MaxWaiting *int32 `json:"maxWaiting"`
}

func (s *Scaling) setDefaults() {
	setDefault(&s.Interceptor, "keda-add-ons-http-interceptor-proxy.keda.svc:8080")
	setDefault(&s.Scaler, "keda-add-ons-http-external-scaler.keda:9090")
	setDefault(&s.Namespace, "keda")
	if s.StartupTimeoutSeconds == 0 {
		s.StartupTimeoutSeconds = 60
	}
	if s.PollingIntervalSeconds == 0 {
		s.PollingIntervalSeconds = 5
	}
	if s.MaxWaiting == nil {
		s.MaxWaiting = ptr.To[int32](200)
	}
}

const maxStartupTimeoutSeconds = 600

func (s *Scaling) validate() error {
	var problems []error
	for _, address := range []struct{ name, value string }{
		{"scaling.interceptor", s.Interceptor}, {"scaling.scaler", s.Scaler},
	} {
		if host, port, ok := strings.Cut(address.value, ":"); !ok || host == "" || port == "" {
			problems = append(problems, fmt.Errorf("%s must be host:port, not %q", address.name, address.value))
		}
	}
	if s.StartupTimeoutSeconds < 1 || s.StartupTimeoutSeconds > maxStartupTimeoutSeconds {
		problems = append(problems, fmt.Errorf("scaling.startupTimeoutSeconds must be 1 to %d, not %d",
			maxStartupTimeoutSeconds, s.StartupTimeoutSeconds))
	}
	if s.PollingIntervalSeconds < 1 {
		problems = append(problems, fmt.Errorf("scaling.pollingIntervalSeconds must be at least 1, not %d",
			s.PollingIntervalSeconds))
	}
	if *s.MaxWaiting < 1 {
		problems = append(problems, fmt.Errorf("scaling.maxWaiting must be at least 1, not %d", *s.MaxWaiting))
	}
	return errors.Join(problems...)
}
