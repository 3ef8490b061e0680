// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels of everything that sless makes. Objects in other namespaces than their owner's cannot carry an owner
// reference, so LabelOwnerUID is the key by which they are found and deleted.
const (
	LabelManagedBy    = "app.kubernetes.io/managed-by"
	ManagedBySless    = "sless"
	LabelFunction     = "sless.io/function"
	LabelOwnerUID     = "sless.io/owner-uid"
	LabelSourceDigest = "sless.io/source-digest"
	// LabelRevision is a hash of everything in a pod template. It tells the pods of the wanted version from older ones.
	LabelRevision = "sless.io/revision"
	// LabelRunID, on what is made for a run of a FunctionJob, is its runID.
	LabelRunID = "sless.io/run-id"
	// LabelNamespace, on an image, names the user namespace that it was built for.
	LabelNamespace = "sless.io/namespace"
)

// Annotations.
const (
	// AnnotationOwner is "<namespace>/<name>" of the object for which another one was made.
	AnnotationOwner = "sless.io/owner"
	// AnnotationTrigger is "<namespace>/<name>" of the Trigger for which an object was made.
	AnnotationTrigger = "sless.io/trigger"
	// AnnotationScheduleSince, on a CronJob, is the time since which its schedule counts: ticks before it are not made up
	// for.
	AnnotationScheduleSince = "sless.io/schedule-since"
	// AnnotationFunctionJob is "<namespace>/<name>" of the FunctionJob for which an object was made.
	AnnotationFunctionJob = "sless.io/function-job"
	// AnnotationFunctionUID, on the Job and the event of a run, is the UID of the Function that it runs.
	AnnotationFunctionUID = "sless.io/function-uid"
	// AnnotationRestartedAt, set on a Function by the user, restarts its pods whenever its value changes.
	AnnotationRestartedAt = "sless.io/restartedAt"
	// AnnotationReconcileAt, set by the user, asks for a reconciliation now, whenever its value changes.
	AnnotationReconcileAt = "sless.io/reconcile-at"
)

// Finalizers and field owners.
const (
	FinalizerFunction    = "sless.io/function"
	FinalizerTrigger     = "sless.io/trigger"
	FinalizerFunctionJob = "sless.io/function-job"
	FieldOwnerController = "sless-controller"
	FieldOwnerGateway    = "sless-gateway"
)

// ReservedEnvPrefix is the beginning of environment names that sless keeps for itself.
const ReservedEnvPrefix = "SLESS_"
