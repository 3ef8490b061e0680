// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/git/report"
)

// GitCode is code that was fetched from a repository and stored.
type GitCode struct {
	// Revision is <ref>@sha1:<commit>, or sha1:<commit>.
	Revision string
	// Digest is that of the archive, sha256:<hex>.
	Digest string
}

// GitState is what was seen of a Function's git source.
type GitState struct {
	// Source is a hash of address, revision and path; Inputs one of the credentials.
	Source, Inputs string
	// RetryAsked is the value of the Function's annotation sless.io/reconcile-at.
	RetryAsked string
	// Pinned says that the revision is a whole commit, which always means the same.
	Pinned bool
	// Known is what the status remembers for Source, or zero.
	Known GitCode
	// Lost says that the known code is not in the object store any more.
	Lost bool
	// Namespace is that of the Function.
	Namespace string
	// Jobs are the fetches of this Function, Pods their pods.
	Jobs []batchv1.Job
	Pods []corev1.Pod
	// Refused is why the API server refuses the pod of a fetch, or nil.
	Refused *Fault
	// AllJobs are the fetches of all Functions; MaxConcurrent is how many may run.
	AllJobs       []batchv1.Job
	MaxConcurrent int
	// Interval is the time between two looks at the repository; 0 means never.
	Interval time.Duration
	Now      time.Time
}

// GitFetch is a fetch to start.
type GitFetch struct {
	// Sequence and Attempt are the counters of the Job's annotations.
	Sequence, Attempt int
	// Known is the commit that need not be fetched again.
	Known string
	// Round is that of the Job in the queue. Queued says that it has to wait for its turn.
	Round  int
	Queued bool
}

// GitFault is why the last fetch failed.
type GitFault struct {
	Reason, Message string
	// User says that the owner of the function, or of the repository, has to mend it.
	User bool
}

// GitStep is what follows from a GitState.
type GitStep struct {
	// Code is the newest code that is known, or zero.
	Code GitCode
	// Fault is that of the last fetch, if it failed.
	Fault *GitFault
	// Waiting says what goes on, when there is no code yet.
	Waiting string
	// Create is a fetch to start, or nil.
	Create *GitFetch
	// Start is a Job whose turn it is and that waits for its credentials and authorities, or nil.
	Start *batchv1.Job
	// Remove names the Jobs that are of no use any more.
	Remove []string
	// After is when to look again, or 0 when only a watch can tell more.
	After time.Duration
}

const (
	// messageDelay is how long the pod of a Job that ended may take to be seen.
	messageDelay = 10 * time.Second
	messageAgain = time.Second
	// slotAgain is when it is looked again whether a fetch has its turn, a net below the watches.
	slotAgain = 30 * time.Second
)

// wholeCommit is a commit with all its digits.
var wholeCommit = regexp.MustCompile(`^[0-9a-fA-F]{40}$`)

// IsWholeCommit tells whether a revision is a commit with all its digits.
func IsWholeCommit(revision string) bool { return wholeCommit.MatchString(revision) }

// NextGitStep decides what to do about a git source. All that it remembers is in the Jobs: the one that ended last says how
// the repository was found, and when; the next one is started once it is time, or when something asks for it.
func NextGitStep(state GitState) GitStep {
	jobs := sortGitJobs(state)
	end := gitEndOf(jobs.record, state)
	step := GitStep{Code: state.Known, Remove: jobs.useless, Waiting: "the repository is being fetched"}
	if end.fetched.Digest != "" {
		step.Code = GitCode{Revision: end.fetched.Revision(), Digest: end.fetched.Digest}
	}
	if state.Lost {
		step.Code, step.Waiting = GitCode{}, "the code is gone from the object store; it is fetched again"
	}
	if end.fault != nil && jobs.recordIsCurrent {
		step.Fault = end.fault
	}
	if state.Pinned && step.Code.Digest != "" {
		step.Remove = append(step.Remove, gitNames(jobs.running)...)
		return step
	}
	if jobs.running != nil {
		followFetch(&step, jobs.running, state)
		return step
	}
	delay, attempt, ok := nextFetch(state, jobs, end, step.Code)
	switch {
	case !ok:
	case delay > 0:
		step.After = delay
	default:
		step.Create = &GitFetch{
			Sequence: jobs.last + 1, Attempt: attempt, Known: report.CommitOf(step.Code.Revision),
			Round: NextRound(state.Namespace, state.AllJobs),
		}
		if step.Create.Queued = queuesUp(*step.Create, state); step.Create.Queued {
			step.waitForTurn(state)
		}
	}
	return step
}

// queuesUp tells whether a fetch that is to be made has to wait for its turn.
func queuesUp(fetch GitFetch, state GitState) bool {
	made := batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		CreationTimestamp: metav1.NewTime(state.Now), Annotations: map[string]string{v1alpha1.AnnotationOwner: state.Namespace + "/"},
	}}
	made.Spec.Suspend = new(true)
	resources.SetRound(&made, fetch.Round)
	return queueOf(append(slices.Clip(state.AllJobs), made), state.Now).ahead(&made) >= state.MaxConcurrent
}

// waitForTurn says that other fetches come first.
func (s *GitStep) waitForTurn(state GitState) {
	s.Waiting = fmt.Sprintf("waits for other fetches to end; %d run at once", state.MaxConcurrent)
	s.After = slotAgain
}

// followFetch looks after a fetch that has not ended.
func followFetch(step *GitStep, job *batchv1.Job, state GitState) {
	if ptr.Deref(job.Spec.Suspend, false) {
		if queueOf(state.AllJobs, state.Now).ahead(job) >= state.MaxConcurrent {
			step.waitForTurn(state)
			return
		}
		step.Start = job
	}
	if state.Refused != nil {
		step.Fault = &GitFault{Reason: state.Refused.Reason, Message: "the pod of the fetch is refused: " + state.Refused.Message}
	}
	if MayBeRefused(job, podsOf(job, state.Pods)) {
		step.After = PollRefusal(job, state.Now)
	}
	for _, pod := range podsOf(job, state.Pods) {
		if message := unschedulable(&pod); message != "" {
			step.Waiting = "the fetch waits for a node: " + message
		}
		for _, status := range pod.Status.ContainerStatuses {
			if w := status.State.Waiting; w != nil && w.Message != "" {
				step.Waiting = fmt.Sprintf("the fetch waits: %s: %s", w.Reason, truncate(w.Message))
			}
		}
	}
}

// nextFetch decides when the repository is to be asked next: after a delay, at once, or never.
func nextFetch(state GitState, jobs gitJobs, end gitEnd, code GitCode) (delay time.Duration, attempt int, ok bool) {
	record := jobs.record
	if record == nil {
		wanted := code.Digest == "" || state.Interval > 0 || state.RetryAsked != ""
		return 0, 0, wanted
	}
	since := state.Now.Sub(endedAt(record))
	attempt = gitNumber(record, resources.AnnotationGitAttempt)
	switch {
	case !jobs.recordIsCurrent:
		return 0, 0, true
	case end.unknown && since < messageDelay:
		return messageAgain, 0, true
	case end.fault != nil && end.fault.User:
		return state.Interval - since, 0, state.Interval > 0
	case end.fault != nil, state.Lost && end.fetched.Digest != "":
		return retryDelay(attempt) - since, attempt + 1, true
	case code.Digest == "":
		return 0, 0, true
	default:
		return state.Interval - since, 0, state.Interval > 0
	}
}

// gitJobs are a Function's fetches, told apart.
type gitJobs struct {
	// running is the fetch that has not ended and is for what is wanted now.
	running *batchv1.Job
	// record is the last fetch of this source that ended. recordIsCurrent says that nothing was asked for since.
	record          *batchv1.Job
	recordIsCurrent bool
	// useless are the names of all others.
	useless []string
	// last is the highest sequence.
	last int
}

func sortGitJobs(state GitState) gitJobs {
	sorted := gitJobs{}
	jobs := slices.Clone(state.Jobs)
	slices.SortFunc(jobs, func(a, b batchv1.Job) int {
		return gitNumber(&b, resources.AnnotationGitSequence) - gitNumber(&a, resources.AnnotationGitSequence)
	})
	for i := range jobs {
		job := &jobs[i]
		sorted.last = max(sorted.last, gitNumber(job, resources.AnnotationGitSequence))
		same := job.Annotations[resources.AnnotationGitSource] == state.Source
		wanted := same && job.Annotations[resources.AnnotationGitInputs] == state.Inputs &&
			job.Annotations[v1alpha1.AnnotationReconcileAt] == state.RetryAsked
		switch {
		case !job.DeletionTimestamp.IsZero():
		case !Finished(job) && wanted && sorted.running == nil:
			sorted.running = job
		case Finished(job) && same && sorted.record == nil:
			sorted.record, sorted.recordIsCurrent = job, wanted
		default:
			sorted.useless = append(sorted.useless, job.Name)
		}
	}
	return sorted
}

// podsOf returns the pods of one Job.
func podsOf(job *batchv1.Job, pods []corev1.Pod) []corev1.Pod {
	var list []corev1.Pod
	for i := range pods {
		if pods[i].Labels[batchv1.JobNameLabel] == job.Name {
			list = append(list, pods[i])
		}
	}
	return list
}

// PendingFetch returns a fetch of the Function that has not ended and has no pod, with which something may be wrong.
func (s GitState) PendingFetch() *batchv1.Job {
	for i := range s.Jobs {
		if MayBeRefused(&s.Jobs[i], podsOf(&s.Jobs[i], s.Pods)) {
			return &s.Jobs[i]
		}
	}
	return nil
}

func gitNames(job *batchv1.Job) []string {
	if job == nil {
		return nil
	}
	return []string{job.Name}
}

func gitNumber(job *batchv1.Job, annotation string) int {
	n, err := strconv.Atoi(job.Annotations[annotation])
	if err != nil {
		return 0
	}
	return n
}

// endedAt is when a Job ended, in whatever way.
func endedAt(job *batchv1.Job) time.Time {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
