// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Limits of all kinds that users rely on (docs/limits.md).
const (
	// MaxNameLength is the length of a name that leaves room for what is appended to it: 11 characters for the Jobs of a
	// CronJob.
	MaxNameLength = 52
	// MaxEventBytes is the size of the JSON event of a Trigger.
	MaxEventBytes = 64 << 10
	// MaxJobEventBytes is the size of the JSON event of a FunctionJob, which is what a Secret holds.
	MaxJobEventBytes = 1 << 20
)

// FunctionReference names a Function in the namespace of the object that refers to it.
type FunctionReference struct {
	// name is the name of the Function. It may be created later than the object that refers to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
}

// SecretReference names a Secret in the namespace of the object that refers to it.
type SecretReference struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// ConfigMapReference names a ConfigMap in the namespace of the object that refers to it.
type ConfigMapReference struct {
	// name is the name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}
