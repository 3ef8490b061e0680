// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types. Ready, Reconciling and Stalled follow kstatus, so that kubectl wait, Flux and Argo CD agree on what
// they mean. The others name causes and exist on Functions only.
const (
	// ConditionReady is True when a call (Function), a firing (Trigger) or a run will work now with what the spec asks
	// for. Positive polarity.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the controller works towards the spec. Negative polarity.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when nothing more happens until the user changes something. Negative polarity.
	ConditionStalled = "Stalled"

	// ConditionSourceReady is True when the code was read, checked and stored. Positive polarity.
	ConditionSourceReady = "SourceReady"
	// ConditionCodeReviewed is True when the code may run: it passed the review, or the operator's policy lets it run without
	// one. The reason tells which. Positive polarity.
	ConditionCodeReviewed = "CodeReviewed"
	// ConditionBuilt is True when the image of the current source exists. Positive polarity.
	ConditionBuilt = "Built"
	// ConditionAvailable is True when some version of the Function answers calls, also when a newer one failed and Ready
	// is False. Positive polarity.
	ConditionAvailable = "Available"
	// ConditionScalingActive is True when an autoscaler sets the number of replicas. Positive polarity.
	ConditionScalingActive = "ScalingActive"

	// ConditionLastRunSucceeded is True when the last run of a cron Trigger that ended succeeded, and absent before the
	// first one. It says nothing about the next run: Ready does. Positive polarity.
	ConditionLastRunSucceeded = "LastRunSucceeded"

	// ConditionComplete is True when the run of a FunctionJob succeeded. Positive polarity.
	ConditionComplete = "Complete"
	// ConditionFailed is True when the run of a FunctionJob failed for good. Negative polarity.
	ConditionFailed = "Failed"
)

// Reasons of conditions that are not faults.
const (
	ReasonReady            = "Ready"
	ReasonPending          = "Pending"
	ReasonSucceeded        = "Succeeded"
	ReasonDisabled         = "Disabled"
	ReasonRollingOut       = "RollingOut"
	ReasonPreflight        = "Preflight"
	ReasonScaledToZero     = "ScaledToZero"
	ReasonStored           = "Stored"
	ReasonWaitingForUpload = "WaitingForUpload"
	ReasonFetching         = "Fetching"
	ReasonReviewOff        = "ReviewOff"
	ReasonReviewPassed     = "ReviewPassed"
	ReasonReviewSkipped    = "ReviewSkipped"
	ReasonReviewing        = "Reviewing"
	ReasonBuilding         = "Building"
	ReasonBuildQueued      = "BuildQueued"
	ReasonImageGiven       = "ImageGiven"
	ReasonFixedReplicas    = "FixedReplicas"
	ReasonNoAutoscaler     = "NoAutoscaler"
	ReasonScaling          = "Scaling"
	ReasonAtZero           = "AtZero"
	ReasonAtMaxReplicas    = "AtMaxReplicas"
	ReasonPaused           = "Paused"
	ReasonWaking           = "Waking"
	ReasonFunctionNotFound = "FunctionNotFound"
	ReasonRunning          = "Running"
	ReasonSkipped          = "Skipped"
)

// Reasons of faults that the user can mend by changing the Function, its code or what it refers to. They are not
// retried until something changes.
const (
	ReasonInvalidSpec        = "InvalidSpec"
	ReasonRuntimeUnknown     = "RuntimeUnknown"
	ReasonScheduleInvalid    = "ScheduleInvalid"
	ReasonTimeZoneUnknown    = "TimeZoneUnknown"
	ReasonEventInvalid       = "EventInvalid"
	ReasonEventTooLarge      = "EventTooLarge"
	ReasonEntrypointNotFound = "EntrypointNotFound"
	ReasonSourceInvalid      = "SourceInvalid"
	ReasonSourceNotFound     = "SourceNotFound"
	ReasonSourceTooLarge     = "SourceTooLarge"
	ReasonManifestInvalid    = "DependencyManifestInvalid"
	ReasonBuildFailed        = "BuildFailed"
	ReasonBuildTimedOut      = "BuildTimedOut"
	ReasonBuildOutOfMemory   = "BuildOutOfMemory"
	ReasonCodeRejected       = "CodeRejected"
	ReasonHandlerLoadFailed  = "HandlerLoadFailed"
	ReasonHandlerCrashed     = "HandlerCrashed"
	ReasonOOMKilled          = "OOMKilled"
	ReasonConfigMissing      = "ConfigMissing"
	ReasonNameConflict       = "NameConflict"
	ReasonHostConflict       = "HostConflict"
	ReasonHostNotRouted      = "HostNotRouted"
	ReasonLastRunFailed      = "LastRunFailed"
)

// Reasons of faults with a git repository that the user, or whoever runs the repository, can mend. The repository is looked
// at again at the interval of the source.
const (
	ReasonGitAuthFailed         = "GitAuthFailed"
	ReasonGitRepositoryNotFound = "GitRepositoryNotFound"
	ReasonGitRevisionNotFound   = "GitRevisionNotFound"
	ReasonGitPathNotFound       = "GitPathNotFound"
	ReasonGitRedirected         = "GitRedirected"
	ReasonGitTLSFailed          = "GitTLSFailed"
	ReasonGitHostKeyRefused     = "GitHostKeyRefused"
	ReasonGitSecretInvalid      = "GitSecretInvalid"
)

// Reasons of faults with a git repository that are tried again with a growing delay.
const (
	ReasonGitUnreachable = "GitUnreachable"
	ReasonGitTimedOut    = "GitTimedOut"
	ReasonGitFailed      = "GitFailed"
)

// Reasons of faults of the platform. They are retried with a growing delay.
const (
	ReasonStoreUnavailable    = "StoreUnavailable"
	ReasonStoreRefused        = "StoreRefused"
	ReasonReviewUnavailable   = "ReviewUnavailable"
	ReasonRegistryUnavailable = "RegistryUnavailable"
	ReasonRegistryRefused     = "RegistryRefused"
	ReasonImageMissing        = "ImageMissing"
	ReasonImagePullFailed     = "ImagePullFailed"
	ReasonContainerRefused    = "ContainerRefused"
	ReasonPodsRefused         = "PodsRefused"
	ReasonQuotaExceeded       = "QuotaExceeded"
	ReasonAutoscalerFailed    = "AutoscalerFailed"
	ReasonUnschedulable       = "Unschedulable"
	ReasonInternalError       = "InternalError"
)

// Reasons why a run of a FunctionJob failed, beside HandlerLoadFailed, HandlerCrashed, OOMKilled, ImagePullFailed,
// PodsRefused and FunctionNotFound.
const (
	// ReasonHandlerFailed is an exception of the handler, or an answer with a status of 400 or more.
	ReasonHandlerFailed = "HandlerFailed"
	// ReasonHandlerTimeout is an attempt that took longer than timeoutSeconds.
	ReasonHandlerTimeout = "HandlerTimeout"
	// ReasonInterrupted is an attempt whose pod was told to stop, such as by kubectl delete pod.
	ReasonInterrupted = "Interrupted"
	// ReasonEvicted is an attempt whose pod was evicted or preempted.
	ReasonEvicted = "Evicted"
	// ReasonDeadlineExceeded is an attempt that did not begin, or did not end, in the time that a pod is given.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonRunDeleted is a run whose Job was deleted by somebody else.
	ReasonRunDeleted = "RunDeleted"
)
