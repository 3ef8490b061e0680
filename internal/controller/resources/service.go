// SPDX-License-Identifier: Apache-2.0

package resources

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

const portName = "http"

// Service builds the Service in front of a Function's pods.
func Service(fn *v1alpha1.Function) *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        fn.Name,
			Namespace:   naming.DeployNamespace(fn.Namespace),
			Labels:      OwnerLabels(fn, ComponentFunction),
			Annotations: OwnerAnnotations(fn),
		},
		Spec: corev1.ServiceSpec{
			Selector: SelectorLabels(fn),
			Ports: []corev1.ServicePort{{
				Name: portName, Port: naming.FunctionPort, TargetPort: intstr.FromString(portName), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
}
