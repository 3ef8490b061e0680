// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Limits of a Function that users rely on (docs/limits.md).
const (
	// MaxInlineSourceBytes is the most that all files of spec.source.inline may hold together.
	MaxInlineSourceBytes = 512 << 10
	// DefaultTimeoutSeconds is the time a call may take when spec.timeoutSeconds is not set.
	DefaultTimeoutSeconds = 60
	// DefaultBuildTimeoutSeconds is the time a build may take when spec.build.timeoutSeconds is not set.
	DefaultBuildTimeoutSeconds = 900
	// DefaultMaxReplicas is spec.scaling.maxReplicas when it is not set.
	DefaultMaxReplicas = 10
	// DefaultScalingConcurrency is spec.scaling.concurrency when it is not set.
	DefaultScalingConcurrency = 100
	// DefaultIdleSeconds is spec.scaling.idleSeconds when it is not set.
	DefaultIdleSeconds = 300
	// MaxHistory is the number of earlier images that status.history keeps.
	MaxHistory = 10
)

// FunctionSpec is what a user asks for: a runtime, some code and how to run it.
// +kubebuilder:validation:XValidation:rule="!(has(self.replicas) && has(self.scaling))",message="set replicas (a fixed number) or scaling (automatic), not both"
// +kubebuilder:validation:XValidation:rule="has(self.source.image) || (has(self.runtime) && size(self.runtime) > 0)",message="runtime is required, such as python3.11 or nodejs20"
type FunctionSpec struct {
	// runtime is the name of a language runtime of the catalogue, such as python3.11 or nodejs20. It is required unless
	// source.image is given.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Runtime string `json:"runtime,omitempty"`

	// entrypoint is `<file without extension>.<function>`, such as handler.handle or src/app.main. The default comes from
	// the runtime (handler.handle).
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][-A-Za-z0-9_./]*\.[A-Za-z_][A-Za-z0-9_]*$`
	Entrypoint string `json:"entrypoint,omitempty"`

	// source is where the code comes from. Exactly one kind of source must be set.
	// +required
	Source FunctionSource `json:"source,omitzero"`

	// env is a list of environment variables for the function. Their order means nothing. Names that begin with SLESS_ are
	// reserved.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(e, !e.name.startsWith('SLESS_'))",message="names that begin with SLESS_ are reserved"
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom is a list of Secrets and ConfigMaps of this namespace whose keys become environment variables.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// volumes is a list of Secrets and ConfigMaps of this namespace that the function sees as files.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Volumes []FunctionVolume `json:"volumes,omitempty"`

	// resources are the requests and limits of the function's container. What is not set comes from the operator's
	// configuration.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// timeoutSeconds is the longest that one call may take. The caller gets 504 after it.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=900
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// concurrency is the most calls that one replica works on at once. Further calls get 429. 0 means the runtime's
	// default.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Concurrency int32 `json:"concurrency,omitempty"`

	// replicas is a fixed number of replicas. It excludes scaling.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`

	// scaling sets how the number of replicas follows the calls. It excludes replicas. With neither, one replica runs.
	// +optional
	Scaling *FunctionScaling `json:"scaling,omitempty"`

	// build sets how the image is built.
	// +optional
	Build FunctionBuild `json:"build,omitzero"`
}

// FunctionVolume is a Secret or a ConfigMap as files.
// +kubebuilder:validation:XValidation:rule="has(self.secret) != has(self.configMap)",message="set exactly one of secret and configMap"
type FunctionVolume struct {
	// name identifies the volume within the Function.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// mountPath is the absolute folder at which the files appear. It may neither lie in a folder of the
	// runtime nor hide one, as /opt would: /app, /opt/deps, /sless, /tmp, /dev, /proc, /sys, /usr, /bin,
	// /sbin, /lib, /lib64, /etc.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^:]+$`
	MountPath string `json:"mountPath,omitempty"`

	// secret names a Secret of this namespace.
	// +optional
	Secret *SecretReference `json:"secret,omitempty"`

	// configMap names a ConfigMap of this namespace.
	// +optional
	ConfigMap *ConfigMapReference `json:"configMap,omitempty"`
}

// FunctionScaling sets how the number of replicas follows the calls.
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",message="minReplicas may not be larger than maxReplicas"
type FunctionScaling struct {
	// minReplicas is the least number of replicas. 0 lets an idle function cost nothing.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the largest number of replicas.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// concurrency is the number of calls in flight per replica that the autoscaler aims at.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Concurrency *int32 `json:"concurrency,omitempty"`

	// requestsPerSecond is the number of calls per second and replica that the autoscaler aims at.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	RequestsPerSecond *int32 `json:"requestsPerSecond,omitempty"`

	// idleSeconds is the time without calls after which the function goes to minReplicas.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	IdleSeconds *int32 `json:"idleSeconds,omitempty"`
}

// BuildStrategy says what the image builder gets to see.
// +kubebuilder:validation:Enum=Auto;Full
type BuildStrategy string

const (
	// BuildStrategyAuto builds dependencies from the dependency files alone and adds the code as a layer.
	BuildStrategyAuto BuildStrategy = "Auto"
	// BuildStrategyFull gives the builder the whole source, for projects whose install step needs it.
	BuildStrategyFull BuildStrategy = "Full"
)

// FunctionBuild sets how the image of a Function is built.
type FunctionBuild struct {
	// strategy says what the builder gets to see: the dependency files (Auto) or the whole source (Full).
	// +optional
	// +kubebuilder:default=Auto
	Strategy BuildStrategy `json:"strategy,omitempty"`

	// timeoutSeconds is the longest that a build may take.
	// +optional
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=7200
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// secretName names a Secret of this namespace with an .npmrc or a pip.conf for private package indexes. Install
	// scripts can read it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
}

// FunctionPhase sums up the conditions in one word, for people. Programs read the conditions.
// +kubebuilder:validation:Enum=Pending;Building;Ready;Disabled;Failed
type FunctionPhase string

// Phases of a Function.
const (
	PhasePending  FunctionPhase = "Pending"
	PhaseBuilding FunctionPhase = "Building"
	PhaseReady    FunctionPhase = "Ready"
	PhaseDisabled FunctionPhase = "Disabled"
	PhaseFailed   FunctionPhase = "Failed"
)

// FunctionStatus is what the controller observed. Only the controller writes it.
type FunctionStatus struct {
	// conditions are Ready, Reconciling, Stalled and the causes SourceReady, CodeReviewed, Built, Available and
	// ScalingActive.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase sums up the conditions in one word.
	// +optional
	Phase FunctionPhase `json:"phase,omitempty"`

	// url is where the function answers.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// image is the image of the wanted version, by digest.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// sourceDigest is the digest of the canonical archive of the code, sha256:<hex>.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	SourceDigest string `json:"sourceDigest,omitempty"`

	// sourceRevision is the commit that the code of a git source was taken from, as <branch or tag>@sha1:<commit>, or
	// sha1:<commit> when the spec names a commit.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	SourceRevision string `json:"sourceRevision,omitempty"`

	// observedSource is a hash of the url, revision and path of spec.source.git that sourceRevision and sourceDigest were
	// fetched for.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ObservedSource string `json:"observedSource,omitempty"`

	// lastBuiltAt is when the image in `image` was first seen as built.
	// +optional
	LastBuiltAt *metav1.Time `json:"lastBuiltAt,omitempty"`

	// replicas is the number of replicas that run now, of whatever version.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`

	// selector selects the pods of the function, in the form that the scale subresource needs.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Selector string `json:"selector,omitempty"`

	// history lists the last images, the newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	History []ImageRecord `json:"history,omitempty"`
}

// ImageRecord is an image that a Function ran.
type ImageRecord struct {
	// image is the image by digest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// base is the image that the code was laid over: the runtime's, or one with the dependencies. Ready images have none.
	// It is kept in the registry as long as this record, so that going back to this code needs no build.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Base string `json:"base,omitempty"`

	// sourceDigest is the digest of the code in it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	SourceDigest string `json:"sourceDigest,omitempty"`

	// builtAt is when the image was first seen as built.
	// +optional
	BuiltAt *metav1.Time `json:"builtAt,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=fn,categories=sless
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.spec.runtime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.status.image`
// +kubebuilder:printcolumn:name="Source",type=string,priority=1,JSONPath=`.status.sourceDigest`
// +kubebuilder:printcolumn:name="Revision",type=string,priority=1,JSONPath=`.status.sourceRevision`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 52",message="the name of a Function must be a DNS label that begins with a letter, of at most 52 characters"

// Function is code that answers calls: a runtime, a source, and how to run it.
type Function struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the user asks for.
	// +required
	Spec FunctionSpec `json:"spec"`

	// status is what the controller observed.
	// +optional
	Status FunctionStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// FunctionList is a list of Functions.
type FunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Function `json:"items"`
}

func init() {
	SchemeBuilder.Register(func(s *runtime.Scheme) error {
		s.AddKnownTypes(SchemeGroupVersion, &Function{}, &FunctionList{})
		return nil
	})
}
