// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FunctionJobSpec says which function to run once, with what.
type FunctionJobSpec struct {
	// functionRef names the Function to run.
	// +required
	FunctionRef FunctionReference `json:"functionRef,omitzero"`

	// event is the JSON value that the function gets.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Event *runtime.RawExtension `json:"event,omitempty"`

	// runID starts a run whenever it grows. 0 means: declared, not run. It may only grow.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="runID may only grow"
	RunID int64 `json:"runID,omitempty"`

	// timeoutSeconds is the longest that one attempt may take. The default is the Function's timeoutSeconds.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=900
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// retries is how often a failed run is tried again.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Retries int32 `json:"retries,omitempty"`

	// ttlSecondsAfterFinished is how long a finished FunctionJob is kept. The default is for ever.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// FunctionJobPhase sums up the conditions in one word.
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Skipped
type FunctionJobPhase string

// Phases of a FunctionJob.
const (
	JobPhasePending   FunctionJobPhase = "Pending"
	JobPhaseRunning   FunctionJobPhase = "Running"
	JobPhaseSucceeded FunctionJobPhase = "Succeeded"
	JobPhaseFailed    FunctionJobPhase = "Failed"
	JobPhaseSkipped   FunctionJobPhase = "Skipped"
)

// FunctionJobStatus is what the controller observed.
type FunctionJobStatus struct {
	// phase sums up the conditions in one word.
	// +optional
	Phase FunctionJobPhase `json:"phase,omitempty"`

	// conditions are Complete and Failed, and the kstatus ones Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// runID is the run that the status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RunID int64 `json:"runID,omitempty"`

	// startTime is when the run began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the run ended, in whatever way.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// attempts is how often the function was started for this run.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`

	// result is the JSON value that the function returned, up to 4 KiB.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Result *runtime.RawExtension `json:"result,omitempty"`

	// resultTruncated is true when the result was larger than 4 KiB. The whole result is in the pod's log.
	// +optional
	ResultTruncated *bool `json:"resultTruncated,omitempty"`

	// message says why the run failed or waits.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fj,categories=sless
// +kubebuilder:printcolumn:name="Function",type=string,JSONPath=`.spec.functionRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Run",type=integer,JSONPath=`.status.runID`
// +kubebuilder:printcolumn:name="Attempts",type=integer,JSONPath=`.status.attempts`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`

// FunctionJob runs a Function once with a JSON event.
type FunctionJob struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the user asks for.
	// +required
	Spec FunctionJobSpec `json:"spec"`

	// status is what the controller observed.
	// +optional
	Status FunctionJobStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// FunctionJobList is a list of FunctionJobs.
type FunctionJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []FunctionJob `json:"items"`
}

func init() {
	SchemeBuilder.Register(func(s *runtime.Scheme) error {
		s.AddKnownTypes(SchemeGroupVersion, &FunctionJob{}, &FunctionJobList{})
		return nil
	})
}
