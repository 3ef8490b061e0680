// SPDX-License-Identifier: Apache-2.0

package resources

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// PullSecretName is the name of the copy of the operator's pull secret in every deploy namespace. It is always the same, so
// that a new password rolls no pods and is there for those that run already, when they are moved to another node.
const PullSecretName = "sless-image-pull"

// PullSecret builds the copy. It belongs to the namespace and not to one Function. config is a docker config.json.
func PullSecret(userNamespace string, config []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        PullSecretName,
			Namespace:   naming.DeployNamespace(userNamespace),
			Labels:      map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless},
			Annotations: map[string]string{UserNamespaceAnnotation: userNamespace},
		},
		Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: config},
	}
}
