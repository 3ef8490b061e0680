// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TriggerType says what calls the function. More types may be added.
// +kubebuilder:validation:Enum=http;cron
type TriggerType string

const (
	// TriggerTypeHTTP calls the function for each HTTP request.
	TriggerTypeHTTP TriggerType = "http"
	// TriggerTypeCron calls the function on a schedule.
	TriggerTypeCron TriggerType = "cron"
)

// TriggerSpec says what calls which function.
// +kubebuilder:validation:XValidation:rule="self.type == 'cron' ? has(self.cron) : !has(self.cron)",message="cron must be set for type cron, and for no other type"
// +kubebuilder:validation:XValidation:rule="self.type == 'http' || !has(self.http)",message="http may be set for type http only"
type TriggerSpec struct {
	// functionRef names the Function to call.
	// +required
	FunctionRef FunctionReference `json:"functionRef,omitzero"`

	// enabled switches the trigger off without losing anything. A Function whose triggers are all off is disabled.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// type is http or cron. It cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="type cannot be changed; create another Trigger"
	Type TriggerType `json:"type,omitempty"`

	// http refines a trigger of type http.
	// +optional
	HTTP *HTTPTrigger `json:"http,omitempty"`

	// cron is the schedule of a trigger of type cron.
	// +optional
	Cron *CronTrigger `json:"cron,omitempty"`
}

// HTTPMethod is the name of an HTTP method.
// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;PATCH;DELETE;OPTIONS
type HTTPMethod string

// HTTPTrigger says which HTTP requests call the function.
type HTTPTrigger struct {
	// host is a host name whose root the function serves, such as hello.example.com.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`
	Host string `json:"host,omitempty"`

	// methods are the allowed methods. The default is all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Methods []HTTPMethod `json:"methods,omitempty"`
}

// ConcurrencyPolicy says what happens when a run is due while an earlier one goes on.
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

// Concurrency policies, with the meaning they have for a CronJob.
const (
	ConcurrencyAllow   ConcurrencyPolicy = "Allow"
	ConcurrencyForbid  ConcurrencyPolicy = "Forbid"
	ConcurrencyReplace ConcurrencyPolicy = "Replace"
)

// CronTrigger is a schedule.
type CronTrigger struct {
	// schedule is a cron expression of five fields, or @hourly, @daily, @weekly, @monthly, @yearly.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule,omitempty"`

	// timeZone is the name of a time zone, such as Europe/Berlin. The default is Etc/UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`

	// concurrencyPolicy says what happens when a run is due while an earlier one goes on.
	// +optional
	// +kubebuilder:default=Forbid
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// startingDeadlineSeconds is how late a run may start. Later ones are skipped.
	// +optional
	// +kubebuilder:validation:Minimum=10
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// event is the JSON value that the function gets.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Event *runtime.RawExtension `json:"event,omitempty"`

	// method is the HTTP method of the call.
	// +optional
	// +kubebuilder:default=POST
	Method HTTPMethod `json:"method,omitempty"`
}

// TriggerStatus is what the controller observed.
type TriggerStatus struct {
	// conditions are Ready, Reconciling and Stalled; and LastRunSucceeded on a cron trigger that has run.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// host is the host name whose root the gateway serves for an http trigger. It is empty when the trigger has none, or
	// when an older trigger has taken it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`

	// url is where an http trigger is called.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// active is true while the trigger calls its function.
	// +optional
	Active *bool `json:"active,omitempty"`

	// lastScheduleTime is when a cron trigger last fired.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// nextScheduleTime is when a cron trigger fires next.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=trg,categories=sless
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Function",type=string,JSONPath=`.spec.functionRef.name`
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="URL",type=string,priority=1,JSONPath=`.status.url`

// Trigger calls a Function over HTTP or on a schedule.
type Trigger struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the user asks for.
	// +required
	Spec TriggerSpec `json:"spec"`

	// status is what the controller observed.
	// +optional
	Status TriggerStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// TriggerList is a list of Triggers.
type TriggerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Trigger `json:"items"`
}

func init() {
	SchemeBuilder.Register(func(s *runtime.Scheme) error {
		s.AddKnownTypes(SchemeGroupVersion, &Trigger{}, &TriggerList{})
		return nil
	})
}
