// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net/url"
	"strings"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/naming"
)

// triggerHost returns the host name that a Trigger asks for, or nothing. derived says that it was not named by the user but
// follows from the Function's name and the domain of functions, so that all such Triggers of a Function share it.
func triggerHost(t *v1alpha1.Trigger, gateway config.Gateway) (host string, derived bool) {
	switch {
	case t.Spec.Type != v1alpha1.TriggerTypeHTTP:
		return "", false
	case namesHost(t):
		return t.Spec.HTTP.Host, false
	case gateway.ExternalURL == "" && gateway.FunctionDomain != "":
		return naming.FunctionHost(t.Namespace, t.Spec.FunctionRef.Name, gateway.FunctionDomain), true
	}
	return "", false
}

func pathURL(namespace, name string, gateway config.Gateway) string {
	return strings.TrimRight(gateway.ExternalURL, "/") + naming.PublicPath(namespace, name)
}

// reservedHost says why no Trigger, or not this one, may have a host; it returns nothing when it may. A Trigger that had the
// gateway's own host would get the calls of everybody else: those from outside, and those of cron Triggers. One that had a
// host of another tenant, or of another service behind the same Ingress controller, would get the calls of that. The host is
// in lower case and without a dot at its end: the schema of Triggers takes no other.
func reservedHost(t *v1alpha1.Trigger, host string, gateway config.Gateway) string {
	service := gateway.ServiceName + "." + gateway.Namespace
	if u, err := url.Parse(gateway.ExternalURL); err == nil && host == strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") {
		return "is the gateway's own address"
	}
	if host == service || strings.HasPrefix(host, service+".") {
		return "is the gateway's own address inside the cluster"
	}
	domain := gateway.FunctionDomain
	if domain == "" || (host != domain && !strings.HasSuffix(host, "."+domain)) {
		if !gateway.AllowsHost(t.Namespace, host) {
			return "is not among those that gateway.allowedHosts, in the operator's configuration, allows this namespace"
		}
		return ""
	}
	if own := naming.FunctionHost(t.Namespace, t.Spec.FunctionRef.Name, domain); host != own {
		return "is in the domain of functions, where this one is " + own
	}
	return ""
}
