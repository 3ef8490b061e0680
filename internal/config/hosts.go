// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// AllowedHost allows Triggers to ask for a host name, or for all below a domain.
type AllowedHost struct {
	// Host is a host name such as hello.example.com, or *.example.com: every name below example.com, of whatever number of
	// labels, but not example.com itself.
	Host string `json:"host"`
	// Namespaces are the user namespaces whose Triggers may have it. Without any, those of all namespaces may.
	Namespaces []string `json:"namespaces"`
}

// AllowsHost tells whether a Trigger of a namespace may ask for a host, which is in lower case and without a dot at its
// end. One entry that allows it is enough. Without AllowedHosts every host is allowed.
func (g *Gateway) AllowsHost(namespace, host string) bool {
	return len(g.AllowedHosts) == 0 || slices.ContainsFunc(g.AllowedHosts, func(a AllowedHost) bool {
		return a.covers(host) && (len(a.Namespaces) == 0 || slices.Contains(a.Namespaces, namespace))
	})
}

func (a *AllowedHost) covers(host string) bool {
	if suffix, ok := strings.CutPrefix(a.Host, "*"); ok {
		return strings.HasSuffix(host, suffix) // the suffix begins with a dot, and no host name does
	}
	return host == a.Host
}

// validate says what is wrong. field is the path of the entry.
func (a *AllowedHost) validate(field string) []error {
	var problems []error
	domain, wildcard := strings.CutPrefix(a.Host, "*.")
	if len(validation.IsDNS1123Subdomain(domain)) > 0 || !wildcard && !strings.Contains(domain, ".") {
		problems = append(problems, fmt.Errorf(
			"%s.host must be a host name in lower case like hello.example.com, or *.example.com, not %q", field, a.Host))
	}
	for i, namespace := range a.Namespaces {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			problems = append(problems, fmt.Errorf("%s.namespaces[%d] must be the name of a namespace, not %q", field, i, namespace))
		}
	}
	return problems
}
