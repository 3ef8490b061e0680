// SPDX-License-Identifier: Apache-2.0

package resources

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

const (
	podSecurityEnforce = "pod-security.kubernetes.io/enforce"
	namespaceNameLabel = "kubernetes.io/metadata.name"
	// UserNamespaceAnnotation, on a deploy namespace and its policy, names the user namespace that they serve.
	UserNamespaceAnnotation = "sless.io/user-namespace"
)

// DeployNamespace builds the namespace in which the workloads of userNamespace run. sless never deletes it.
func DeployNamespace(userNamespace string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name: naming.DeployNamespace(userNamespace),
			Labels: map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless,
				podSecurityEnforce:      "restricted",
			},
			Annotations: map[string]string{UserNamespaceAnnotation: userNamespace},
		},
	}
}

// NetworkPolicy builds the policy of a deploy namespace: nothing may call a function but the given namespaces, where the
// gateway and the autoscaler's interceptor run.
func NetworkPolicy(userNamespace string, callers ...string) *networkingv1.NetworkPolicy {
	port := intstr.FromInt32(naming.FunctionPort)
	tcp := corev1.ProtocolTCP
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        "sless-default",
			Namespace:   naming.DeployNamespace(userNamespace),
			Labels:      map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless},
			Annotations: map[string]string{UserNamespaceAnnotation: userNamespace},
		},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{
					NamespaceSelector: &metav1.LabelSelector{
						MatchExpressions: []metav1.LabelSelectorRequirement{{
							Key: namespaceNameLabel, Operator: metav1.LabelSelectorOpIn, Values: callers,
						}},
					},
				}},
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &port}},
			}},
		},
	}
}
