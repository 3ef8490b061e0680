// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Scaling says where KEDA and its HTTP add-on are, and how functions that scale are treated. It has no effect on a cluster
// without them.
type Scaling struct {
	// Scaler is host:port of the add-on's scaler, which KEDA asks (keda-add-ons-http-external-scaler.keda:9090 by default).
	Scaler string `json:"scaler"`
	// Interceptor is host:port of the add-on's interceptor, to which the gateway sends calls of functions that scale
	// (keda-add-ons-http-interceptor-proxy.keda.svc:8080 by default).
	Interceptor string `json:"interceptor"`
	// Operator is <service>.<namespace> of KEDA's operator (keda-operator.keda by default). Functions say when it does not run.
	Operator string `json:"operator"`
	// Namespace is where the interceptor runs (keda by default). Functions admit calls from there.
	Namespace string `json:"namespace"`
	// StartupTimeoutSeconds is how long a call waits for the first replica (60 by default; 1 to 600).
	StartupTimeoutSeconds int32 `json:"startupTimeoutSeconds"`
	// PollingIntervalSeconds is how often KEDA looks whether a function is idle (2 by default). It adds to idleSeconds.
	PollingIntervalSeconds int32 `json:"pollingIntervalSeconds"`
}

// StartupTimeout is StartupTimeoutSeconds as a duration.
func (s *Scaling) StartupTimeout() time.Duration {
	return time.Duration(s.StartupTimeoutSeconds) * time.Second
}

// SetDefaults fills in what is not set.
func (s *Scaling) SetDefaults() {
	setDefault(&s.Scaler, "keda-add-ons-http-external-scaler.keda:9090")
	setDefault(&s.Interceptor, "keda-add-ons-http-interceptor-proxy.keda.svc:8080")
	setDefault(&s.Operator, "keda-operator.keda")
	setDefault(&s.Namespace, "keda")
	if s.StartupTimeoutSeconds == 0 {
		s.StartupTimeoutSeconds = 60
	}
	if s.PollingIntervalSeconds == 0 {
		s.PollingIntervalSeconds = 2
	}
}

const maxStartupTimeoutSeconds = 600

func (s *Scaling) validate() error {
	var problems []error
	for field, address := range map[string]string{"scaler": s.Scaler, "interceptor": s.Interceptor} {
		if !isHostPort(address) {
			problems = append(problems, fmt.Errorf("scaling.%s must be host:port, not %q", field, address))
		}
	}
	if _, ok := ServiceOf(s.Operator); !ok {
		problems = append(problems, fmt.Errorf("scaling.operator must be <service>.<namespace>, not %q", s.Operator))
	}
	if s.StartupTimeoutSeconds < 1 || s.StartupTimeoutSeconds > maxStartupTimeoutSeconds {
		problems = append(problems, fmt.Errorf("scaling.startupTimeoutSeconds must be 1 to %d, not %d",
			maxStartupTimeoutSeconds, s.StartupTimeoutSeconds))
	}
	if s.PollingIntervalSeconds < 1 {
		problems = append(problems, fmt.Errorf("scaling.pollingIntervalSeconds must be at least 1, not %d",
			s.PollingIntervalSeconds))
	}
	return errors.Join(problems...)
}

func isHostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}

// ServiceOf reads <service>.<namespace>[.svc…][:port]. It reports false for an address of another kind, such as one outside
// of the cluster.
func ServiceOf(address string) (types.NamespacedName, bool) {
	host, _, _ := strings.Cut(address, ":")
	parts := strings.Split(host, ".")
	if len(parts) < 2 || len(parts) > 2 && parts[2] != "svc" {
		return types.NamespacedName{}, false
	}
	for _, name := range parts[:2] {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return types.NamespacedName{}, false
		}
	}
	return types.NamespacedName{Namespace: parts[1], Name: parts[0]}, true
}
