// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"maps"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/naming"
)

// ComponentHost marks what leads a host name to the gateway.
const ComponentHost = "host"

// HTTPRouteKind is the kind of the Gateway API that is used. The API is not part of every cluster, so that its types are
// not used either.
var HTTPRouteKind = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}

func hostMeta(t *v1alpha1.Trigger, gateway config.Gateway) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		// A backend has to be in the namespace of its Ingress, and the gateway is the backend.
		Name: naming.HostRoute(t.Namespace, t.Name), Namespace: gateway.Namespace,
		Labels: TriggerLabels(t, ComponentHost), Annotations: TriggerAnnotations(t),
	}
}

// Ingress builds the Ingress that leads a host to the gateway.
func Ingress(t *v1alpha1.Trigger, host string, gateway config.Gateway) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"},
		ObjectMeta: hostMeta(t, gateway),
		Spec: networkingv1.IngressSpec{
			Rules: []networkingv1.IngressRule{{
				Host: host,
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{
						Path: "/", PathType: new(networkingv1.PathTypePrefix),
						Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
							Name: gateway.ServiceName, Port: networkingv1.ServiceBackendPort{Number: gateway.ServicePort},
						}},
					}},
				}},
			}},
		},
	}
	// What leads back to the Trigger wins over the operator's annotations.
	annotations := maps.Clone(gateway.IngressAnnotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, ingress.Annotations)
	ingress.Annotations = annotations
	if gateway.IngressClassName != "" {
		ingress.Spec.IngressClassName = &gateway.IngressClassName
	}
	if gateway.IngressTLSSecretName != "" {
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: gateway.IngressTLSSecretName}}
	}
	return ingress
}

// HTTPRoute builds the route of the Gateway API that leads a host to the gateway.
func HTTPRoute(t *v1alpha1.Trigger, host string, gateway config.Gateway) *unstructured.Unstructured {
	parents := make([]any, 0, len(gateway.HTTPRoute.ParentRefs))
	for _, ref := range gateway.HTTPRoute.ParentRefs {
		parent := map[string]any{"name": ref.Name}
		if ref.Namespace != "" {
			parent["namespace"] = ref.Namespace
		}
		if ref.SectionName != "" {
			parent["sectionName"] = ref.SectionName
		}
		parents = append(parents, parent)
	}
	rule := map[string]any{
		"backendRefs": []any{map[string]any{"name": gateway.ServiceName, "port": int64(gateway.ServicePort)}},
	}
	if timeout := gateway.HTTPRoute.RequestTimeout; timeout != config.OmitTimeout {
		// Else a Gateway ends calls by its own measure, some after 15 s.
		rule["timeouts"] = map[string]any{"request": timeout}
	}
	route := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"parentRefs": parents, "hostnames": []any{host}, "rules": []any{rule}},
	}}
	meta := hostMeta(t, gateway)
	route.SetGroupVersionKind(HTTPRouteKind)
	route.SetName(meta.Name)
	route.SetNamespace(meta.Namespace)
	route.SetLabels(meta.Labels)
	route.SetAnnotations(meta.Annotations)
	return route
}
