// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/git/report"
)

const (
	commit1 = "1111111111111111111111111111111111111111"
	commit2 = "2222222222222222222222222222222222222222"
)

var (
	gitNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	known1 = GitCode{Revision: "main@sha1:" + commit1, Digest: "sha256:aa"}
	known2 = GitCode{Revision: "main@sha1:" + commit2, Digest: "sha256:bb"}
)

// fetchJob makes the Job of a fetch: fetchJob(3, fetchEnded(time.Minute, 0, message)).
func fetchJob(sequence int, change ...func(*batchv1.Job, *corev1.Pod)) func(*GitState) {
	return func(state *GitState) {
		name := "git-" + strconv.Itoa(sequence)
		job := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			resources.AnnotationGitSource: "source", resources.AnnotationGitInputs: "inputs",
			resources.AnnotationGitSequence: strconv.Itoa(sequence),
		}}}
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{batchv1.JobNameLabel: name}}}
		for _, c := range change {
			c(&job, &pod)
		}
		state.Jobs = append(state.Jobs, job)
		if len(pod.Labels) > 0 {
			state.Pods = append(state.Pods, pod)
		}
	}
}

func fetchEnded(ago time.Duration, exitCode int32, message string) func(*batchv1.Job, *corev1.Pod) {
	return func(job *batchv1.Job, pod *corev1.Pod) {
		kind := batchv1.JobComplete
		if exitCode != 0 {
			kind = batchv1.JobFailed
		}
		job.Status.Conditions = []batchv1.JobCondition{{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(gitNow.Add(-ago)),
		}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Message: message},
		}}}
	}
}

func fetchedOf(code GitCode) string {
	return `{"ref":"main","commit":"` + report.CommitOf(code.Revision) + `","digest":"` + code.Digest + `"}`
}

func unchangedOf(code GitCode) string {
	return `{"ref":"main","commit":"` + report.CommitOf(code.Revision) + `","unchanged":true}`
}

func annotated(key, value string) func(*batchv1.Job, *corev1.Pod) {
	return func(job *batchv1.Job, _ *corev1.Pod) { job.Annotations[key] = value }
}

func podGone(_ *batchv1.Job, pod *corev1.Pod) { pod.Labels = nil }

func TestNextGitStep(t *testing.T) {
	t.Parallel()
	const interval = 5 * time.Minute
	fetching := "the repository is being fetched"
	user := func(message string) *GitFault {
		return &GitFault{Reason: v1alpha1.ReasonGitAuthFailed, Message: message, User: true}
	}
	platform := &GitFault{Reason: v1alpha1.ReasonGitUnreachable, Message: "no answer"}
	tests := map[string]struct {
		known  GitCode
		jobs   []func(*GitState)
		change func(*GitState)
		want   GitStep
	}{
		"first fetch": {want: GitStep{Create: &GitFetch{Sequence: 1}}},
		"no free slot": {
			change: func(s *GitState) { s.AllJobs = []batchv1.Job{*makeJob("a", of("bank")), *makeJob("b", of("bank"))} },
			want: GitStep{
				Waiting: "waits for other fetches to end; 2 run at once", After: slotAgain,
				Create: &GitFetch{Sequence: 1, Round: 1, Queued: true},
			},
		},
		"a free slot": {
			change: func(s *GitState) {
				s.AllJobs = []batchv1.Job{*makeJob("a", of("bank")), *makeJob("b", of("bank"), ended(batchv1.JobComplete, ""))}
			},
			want: GitStep{Create: &GitFetch{Sequence: 1, Round: 1}},
		},
		"the free slot is for one that waits longer": {
			change: func(s *GitState) {
				s.AllJobs = []batchv1.Job{*makeJob("a", of("bank")), *makeJob("b", of("bakery"), suspended, round(1))}
			},
			want: GitStep{
				Waiting: "waits for other fetches to end; 2 run at once", After: slotAgain,
				Create: &GitFetch{Sequence: 1, Round: 1, Queued: true},
			},
		},
		"waits for its turn": {
			jobs: []func(*GitState){fetchJob(1, func(j *batchv1.Job, _ *corev1.Pod) { j.Spec.Suspend = new(true) })},
			change: func(s *GitState) {
				s.AllJobs = slices.Concat(s.Jobs, []batchv1.Job{*makeJob("a", of("bank")), *makeJob("b", of("bank"))})
			},
			want: GitStep{Waiting: "waits for other fetches to end; 2 run at once", After: slotAgain},
		},
		"runs": {jobs: []func(*GitState){fetchJob(1)}},
		"first result": {
			jobs: []func(*GitState){fetchJob(1, fetchEnded(time.Minute, 0, fetchedOf(known1)))},
			want: GitStep{Code: known1, After: 4 * time.Minute},
		},
		"remembered, before the next poll": {
			known: known1, jobs: []func(*GitState){fetchJob(4, fetchEnded(time.Minute, 0, unchangedOf(known1)))},
			want: GitStep{Code: known1, After: 4 * time.Minute},
		},
		"remembered, time to poll": {
			known: known1, jobs: []func(*GitState){fetchJob(4, fetchEnded(interval, 0, unchangedOf(known1)))},
			want: GitStep{Code: known1, Create: &GitFetch{Sequence: 5, Known: commit1}},
		},
		"poll runs": {
			known: known1, jobs: []func(*GitState){fetchJob(4, fetchEnded(interval, 0, unchangedOf(known1))), fetchJob(5)},
			want: GitStep{Code: known1},
		},
		"poll brought another commit": {
			known: known1, jobs: []func(*GitState){
				fetchJob(4, fetchEnded(interval, 0, unchangedOf(known1))), fetchJob(5, fetchEnded(0, 0, fetchedOf(known2))),
			},
			want: GitStep{Code: known2, Remove: []string{"git-4"}, After: interval},
		},
		"polling is off": {
			known: known1, jobs: []func(*GitState){fetchJob(4, fetchEnded(time.Hour, 0, fetchedOf(known1)))},
			change: func(s *GitState) { s.Interval = 0 },
			want:   GitStep{Code: known1},
		},
		"asked for, polling is off": {
			known: known1, jobs: []func(*GitState){fetchJob(4, fetchEnded(0, 0, fetchedOf(known1)))},
			change: func(s *GitState) { s.Interval, s.RetryAsked = 0, "now" },
			want:   GitStep{Code: known1, Create: &GitFetch{Sequence: 5, Known: commit1}},
		},
		"asked for and done": {
			known: known1,
			jobs: []func(*GitState){
				fetchJob(5, fetchEnded(0, 0, unchangedOf(known1)), annotated(v1alpha1.AnnotationReconcileAt, "now")),
			},
			change: func(s *GitState) { s.RetryAsked = "now" },
			want:   GitStep{Code: known1, After: interval},
		},
		"another Secret": {
			known: known1, jobs: []func(*GitState){fetchJob(4, fetchEnded(0, 0, fetchedOf(known1)))},
			change: func(s *GitState) { s.Inputs = "other" },
			want:   GitStep{Code: known1, Create: &GitFetch{Sequence: 5, Known: commit1}},
		},
		"another source": {
			jobs:   []func(*GitState){fetchJob(4, fetchEnded(0, 0, fetchedOf(known1)))},
			change: func(s *GitState) { s.Source = "other" },
			want:   GitStep{Create: &GitFetch{Sequence: 5}, Remove: []string{"git-4"}},
		},
		"another source while a fetch runs": {
			jobs:   []func(*GitState){fetchJob(4)},
			change: func(s *GitState) { s.Source = "other" },
			want:   GitStep{Create: &GitFetch{Sequence: 5}, Remove: []string{"git-4"}},
		},
		"a Job that goes": {
			jobs: []func(*GitState){fetchJob(4, func(j *batchv1.Job, _ *corev1.Pod) { j.DeletionTimestamp = &metav1.Time{Time: gitNow} })},
			want: GitStep{Create: &GitFetch{Sequence: 5}},
		},
		"Jobs were removed by hand": {known: known1, want: GitStep{Code: known1, Create: &GitFetch{Sequence: 1, Known: commit1}}},
		"Jobs were removed by hand, polling is off": {
			known: known1, change: func(s *GitState) { s.Interval = 0 }, want: GitStep{Code: known1},
		},
		"a commit is never polled": {
			known: known1, jobs: []func(*GitState){fetchJob(1, fetchEnded(time.Hour, 0, fetchedOf(known1)))},
			change: func(s *GitState) { s.Pinned, s.RetryAsked = true, "now" },
			want:   GitStep{Code: known1},
		},
		"a commit is fetched": {change: func(s *GitState) { s.Pinned = true }, want: GitStep{Create: &GitFetch{Sequence: 1}}},
		"user fault": {
			jobs: []func(*GitState){fetchJob(1, fetchEnded(time.Minute, 1, "GitAuthFailed: refused"))},
			want: GitStep{Fault: user("refused"), After: 4 * time.Minute},
		},
		"user fault, polling is off": {
			jobs:   []func(*GitState){fetchJob(1, fetchEnded(time.Hour, 1, "GitAuthFailed: refused"))},
			change: func(s *GitState) { s.Interval = 0 },
			want:   GitStep{Fault: user("refused")},
		},
		"user fault, time to look again": {
			known: known1, jobs: []func(*GitState){fetchJob(7, fetchEnded(interval, 1, "GitAuthFailed: refused"))},
			want: GitStep{Code: known1, Fault: user("refused"), Create: &GitFetch{Sequence: 8, Known: commit1}},
		},
		"user fault stays while it is looked at again": {
			jobs: []func(*GitState){fetchJob(7, fetchEnded(interval, 1, "GitAuthFailed: refused")), fetchJob(8)},
			want: GitStep{Fault: user("refused")},
		},
		"user fault with another Secret": {
			jobs:   []func(*GitState){fetchJob(7, fetchEnded(0, 1, "GitAuthFailed: refused"))},
			change: func(s *GitState) { s.Inputs = "other" },
			want:   GitStep{Create: &GitFetch{Sequence: 8}},
		},
		"platform fault": {
			jobs: []func(*GitState){fetchJob(1, fetchEnded(4*time.Second, 1, "GitUnreachable: no answer"))},
			want: GitStep{Fault: platform, After: 6 * time.Second},
		},
		"platform fault, later": {
			known: known1,
			jobs: []func(*GitState){
				fetchJob(3, fetchEnded(30*time.Second, 1, "GitUnreachable: no answer"), annotated(resources.AnnotationGitAttempt, "2")),
			},
			want: GitStep{Code: known1, Fault: platform, After: 10 * time.Second},
		},
		"platform fault, again": {
			jobs: []func(*GitState){
				fetchJob(3, fetchEnded(time.Minute, 1, "GitUnreachable: no answer"), annotated(resources.AnnotationGitAttempt, "2")),
			},
			want: GitStep{Fault: platform, Create: &GitFetch{Sequence: 4, Attempt: 3}},
		},
		"out of memory": {
			jobs: []func(*GitState){fetchJob(1, fetchEnded(0, 137, ""))},
			want: GitStep{After: interval, Fault: &GitFault{
				Reason: v1alpha1.ReasonSourceTooLarge, User: true,
				Message: "the fetch took more memory than it may use (exit code 137); a file of the repository is too large",
			}},
		},
		"a crash of the program": {
			jobs: []func(*GitState){fetchJob(1, fetchEnded(0, 2, "panic: no"))},
			want: GitStep{After: retryBase, Fault: &GitFault{Reason: v1alpha1.ReasonGitFailed, Message: "panic: no"}},
		},
		"evicted": {
			jobs: []func(*GitState){fetchJob(1, fetchEnded(0, 1, ""), func(_ *batchv1.Job, p *corev1.Pod) {
				p.Status.Reason, p.Status.Message = "Evicted", "emptyDir"
			})},
			want: GitStep{After: interval, Fault: &GitFault{
				Reason: v1alpha1.ReasonSourceTooLarge, User: true, Message: "the fetch was ended for what it took on the node: emptyDir",
			}},
		},
		"deadline": {
			jobs: []func(*GitState){fetchJob(1, fetchEnded(0, 1, ""), podGone, func(j *batchv1.Job, _ *corev1.Pod) {
				j.Status.Conditions[0].Reason = batchv1.JobReasonDeadlineExceeded
			})},
			want: GitStep{After: retryBase, Fault: &GitFault{
				Reason:  v1alpha1.ReasonGitTimedOut,
				Message: "the fetch did not end in time; look whether its pod could start and the server of the repository answers",
			}},
		},
		"pod not seen yet": {
			jobs: []func(*GitState){fetchJob(1, fetchEnded(time.Second, 0, ""), podGone)},
			want: GitStep{After: messageAgain},
		},
		"pod gone": {
			jobs: []func(*GitState){fetchJob(1, fetchEnded(time.Minute, 0, ""), podGone)},
			want: GitStep{
				Fault:  &GitFault{Reason: v1alpha1.ReasonInternalError, Message: "the pod of the fetch is gone"},
				Create: &GitFetch{Sequence: 2, Attempt: 1},
			},
		},
		"pod gone, but the result was remembered": {
			known: known1, jobs: []func(*GitState){fetchJob(1, fetchEnded(time.Minute, 0, ""), podGone)},
			want: GitStep{Code: known1, After: 4 * time.Minute},
		},
		"report cut off": {
			jobs: []func(*GitState){fetchJob(1, fetchEnded(0, 0, "{"))},
			want: GitStep{After: retryBase, Fault: &GitFault{
				Reason: v1alpha1.ReasonInternalError, Message: "reading the report of a fetch: unexpected end of JSON input",
			}},
		},
		"code lost": {
			known: known1, jobs: []func(*GitState){fetchJob(4, fetchEnded(time.Second, 0, unchangedOf(known1)))},
			change: func(s *GitState) { s.Lost = true },
			want:   GitStep{Waiting: "the code is gone from the object store; it is fetched again", Create: &GitFetch{Sequence: 5}},
		},
		"code lost again": {
			known: known1, jobs: []func(*GitState){fetchJob(4, fetchEnded(time.Second, 0, fetchedOf(known1)))},
			change: func(s *GitState) { s.Lost, s.Pinned = true, true },
			want:   GitStep{Waiting: "the code is gone from the object store; it is fetched again", After: 9 * time.Second},
		},
		"unchanged, but nothing is remembered": {
			jobs: []func(*GitState){fetchJob(4, fetchEnded(time.Second, 0, unchangedOf(known1)))},
			want: GitStep{Create: &GitFetch{Sequence: 5}},
		},
		"no pod yet": {
			jobs: []func(*GitState){fetchJob(1, podGone, func(j *batchv1.Job, _ *corev1.Pod) { j.Status.StartTime = new(metav1.NewTime(gitNow)) })},
			want: GitStep{After: refusalPollMin},
		},
		"pod refused": {
			known: known1,
			jobs: []func(*GitState){fetchJob(1, podGone, func(j *batchv1.Job, _ *corev1.Pod) {
				j.Status.StartTime = new(metav1.NewTime(gitNow.Add(-20 * time.Second)))
			})},
			change: func(s *GitState) {
				s.Refused = &Fault{Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota"}
			},
			want: GitStep{Code: known1, After: 20 * time.Second, Fault: &GitFault{
				Reason: v1alpha1.ReasonQuotaExceeded, Message: "the pod of the fetch is refused: exceeded quota",
			}},
		},
		"no node": {
			jobs: []func(*GitState){fetchJob(1, func(_ *batchv1.Job, p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes",
				}}
			})},
			want: GitStep{Waiting: "the fetch waits for a node: 0/1 nodes"},
		},
		"no image": {
			jobs: []func(*GitState){fetchJob(1, func(_ *batchv1.Job, p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "none"},
				}}}
			})},
			want: GitStep{Waiting: "the fetch waits: ErrImagePull: none"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := GitState{
				Source: "source", Inputs: "inputs", Known: tc.known, MaxConcurrent: 2, Interval: interval, Now: gitNow,
			}
			for _, add := range tc.jobs {
				add(&state)
			}
			if tc.change != nil {
				tc.change(&state)
			}
			if tc.want.Waiting == "" {
				tc.want.Waiting = fetching
			}
			if diff := cmp.Diff(tc.want, NextGitStep(state)); diff != "" {
				t.Errorf("NextGitStep (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNextGitStepStartsAJobThatWaitsForItsSecret(t *testing.T) {
	t.Parallel()
	state := GitState{Source: "source", Inputs: "inputs", MaxConcurrent: 1, Now: gitNow}
	fetchJob(1, func(j *batchv1.Job, _ *corev1.Pod) { j.Spec.Suspend = new(true) })(&state)
	if step := NextGitStep(state); step.Start == nil || step.Start.Name != "git-1" || step.Create != nil {
		t.Errorf("got %+v", step)
	}
}

// The reasons of a fetch and those of conditions are the same words.
func TestGitReasons(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		report.AuthFailed: v1alpha1.ReasonGitAuthFailed, report.RepositoryNotFound: v1alpha1.ReasonGitRepositoryNotFound,
		report.RevisionNotFound: v1alpha1.ReasonGitRevisionNotFound, report.PathNotFound: v1alpha1.ReasonGitPathNotFound,
		report.Redirected: v1alpha1.ReasonGitRedirected, report.TLSFailed: v1alpha1.ReasonGitTLSFailed,
		report.HostKeyRefused: v1alpha1.ReasonGitHostKeyRefused, report.SecretInvalid: v1alpha1.ReasonGitSecretInvalid,
		report.TooLarge: v1alpha1.ReasonSourceTooLarge, report.Invalid: v1alpha1.ReasonSourceInvalid,
	} {
		if got != want || !gitUserFaults[want] {
			t.Errorf("%s is not %s, or not a user's fault", got, want)
		}
	}
	for got, want := range map[string]string{
		report.Unreachable: v1alpha1.ReasonGitUnreachable, report.TimedOut: v1alpha1.ReasonGitTimedOut, report.Failed: v1alpha1.ReasonGitFailed,
	} {
		if got != want || gitUserFaults[want] {
			t.Errorf("%s is not %s, or a user's fault", got, want)
		}
	}
}

func TestGitCredentials(t *testing.T) {
	t.Parallel()
	const web, shell = "https://git.example.com/x", "git@git.example.com:x"
	tests := map[string]struct {
		url      string
		data     map[string]string
		want     map[string]string
		wantWord string
	}{
		"password": {
			url: web, data: map[string]string{"username": "u\n", "password": "p\r\n", "other": "o", "identity": "i"},
			want: map[string]string{"username": "u", "password": "p"},
		},
		"token":          {url: web, data: map[string]string{"token": "t"}, want: map[string]string{"token": "t"}},
		"authority only": {url: web, data: map[string]string{"ca.crt": "c\n"}, want: map[string]string{"ca.crt": "c\n"}},
		"user only":      {url: web, data: map[string]string{"username": "u"}, wantWord: "token"},
		"empty password": {url: web, data: map[string]string{"username": "u", "password": "\n"}, wantWord: "password"},
		"key": {
			url: shell, data: map[string]string{"identity": "i\n", "known_hosts": "k\n", "password": "p", "token": "t"},
			want: map[string]string{"identity": "i\n", "known_hosts": "k\n", "password": "p"},
		},
		"key by address":   {url: "ssh://git@x/y", data: map[string]string{"identity": "i"}, wantWord: "known_hosts"},
		"no key":           {url: shell, data: map[string]string{"known_hosts": "k"}, wantWord: "identity"},
		"password for SSH": {url: shell, data: map[string]string{"username": "u", "password": "p"}, wantWord: "identity"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := map[string][]byte{}
			for key, value := range tc.data {
				data[key] = []byte(value)
			}
			picked, err := GitCredentials(tc.url, data)
			if tc.wantWord != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantWord) {
					t.Errorf("got %v, want %q in it", err, tc.wantWord)
				}
				return
			}
			got := map[string]string{}
			for key, value := range picked {
				got[key] = string(value)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("GitCredentials: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
