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

	// event is the JSON value that the function gets, up to 1 MiB. Without one it gets null. A run keeps the event that it
	// was started with.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Event *runtime.RawExtension `json:"event,omitempty"`

	// runID starts a run whenever it grows. 0 means: declared, not run. It may only grow. A run that goes on is not
	// disturbed: the next one begins when it has ended.
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

	// retries is how often the function is started again when an attempt failed, whatever made it fail. So the function is
	// started at most retries + 1 times for a run. Kubernetes waits 10 s before the first retry, and each time twice as long.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Retries int32 `json:"retries,omitempty"`

	// ttlSecondsAfterFinished is how many seconds after its run has ended a FunctionJob is deleted, in whatever way the run
	// ended. The default is never.
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

// FunctionJobLogs says where the output of a run is kept, until the next run begins or the FunctionJob is deleted.
type FunctionJobLogs struct {
	// namespace is the namespace of the Job and its pods.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// job is the name of the Job. It has one pod for each attempt.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Job string `json:"job,omitempty"`

	// pod is the name of the pod of the last attempt that has ended.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Pod string `json:"pod,omitempty"`

	// container is the name of the container in the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`
}

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

	// runID is the run that the status speaks of. It is smaller than spec.runID while an earlier run goes on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RunID int64 `json:"runID,omitempty"`

	// startTime is when the run began: from then on it counts as run, and is never begun again.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the run ended, in whatever way.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// attempts is how often the function was started for this run.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`

	// result is the JSON value that the function returned, up to 4 KiB. It is left out when that was null.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Result *runtime.RawExtension `json:"result,omitempty"`

	// resultTruncated is true when the result was larger than 4 KiB, or holds a number that Kubernetes cannot store. The whole
	// result is in the pod's log.
	// +optional
	ResultTruncated *bool `json:"resultTruncated,omitempty"`

	// message says why the run failed or waits.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// logs says where the output of the run is.
	// +optional
	Logs *FunctionJobLogs `json:"logs,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fj,categories=sless
// +kubebuilder:printcolumn:name="Function",type=string,JSONPath=`.spec.functionRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Run",type=integer,JSONPath=`.status.runID`
// +kubebuilder:printcolumn:name="Attempts",type=integer,JSONPath=`.status.attempts`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Completed",type=date,priority=1,JSONPath=`.status.completionTime`
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
