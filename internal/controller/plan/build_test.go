// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type jobOption func(*batchv1.Job)

func makeJob(name string, options ...jobOption) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(epoch),
	}}
	for _, option := range options {
		option(job)
	}
	return job
}

func suspended(j *batchv1.Job) { j.Spec.Suspend = new(true) }

// heldJob was taken back for the third time, for a minute from epoch on.
func heldJob() *batchv1.Job {
	return makeJob("own", suspended, func(j *batchv1.Job) {
		resources.Hold(j, resources.Held{
			Until: epoch.Add(time.Minute), Times: 3, Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota: small",
		})
	})
}

func created(after time.Duration) jobOption {
	return func(j *batchv1.Job) { j.CreationTimestamp = metav1.NewTime(epoch.Add(after)) }
}

func ended(kind batchv1.JobConditionType, reason string) jobOption {
	return func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions,
			batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(epoch)})
	}
}

func failedBuildPod(container string, exit int32, message string) corev1.Pod {
	ok := corev1.ContainerStatus{Name: resources.BuildFetch,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	bad := corev1.ContainerStatus{Name: container,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Message: message}}}
	pod := corev1.Pod{}
	if container == resources.BuildPush {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{ok}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{bad}
	} else {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{bad}
	}
	return pod
}

func TestNextBuildStep(t *testing.T) {
	t.Parallel()
	failedJob := makeJob("own", ended(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded))
	tests := map[string]struct {
		state       BuildState
		wantAction  BuildAction
		wantReason  string
		wantMessage string
		wantRound   int
	}{
		"no job": {wantAction: BuildCreate},
		"no job, and others run": {
			state: BuildState{Namespace: "shop", Jobs: []batchv1.Job{*makeJob("a", of("bank"), round(4))}}, wantAction: BuildCreate, wantRound: 5,
		},
		"removed job": {
			state: BuildState{Job: makeJob("own", func(j *batchv1.Job) {
				j.DeletionTimestamp = new(metav1.NewTime(epoch))
			})},
			wantAction: BuildWait, wantReason: v1alpha1.ReasonBuilding,
		},
		"succeeded, but the image is gone": {
			state: BuildState{Job: makeJob("own", ended(batchv1.JobComplete, ""))}, wantAction: BuildDelete,
		},
		"running": {
			state: BuildState{Job: makeJob("own")}, wantAction: BuildWait, wantReason: v1alpha1.ReasonBuilding,
			wantMessage: "being installed",
		},
		"running on no node": {
			state: BuildState{Job: makeJob("own"), Pods: []corev1.Pod{{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes",
			}}}}}},
			wantAction: BuildWait, wantReason: v1alpha1.ReasonUnschedulable, wantMessage: "0/1 nodes",
		},
		"on no node for half of its time": {
			state: BuildState{
				Job: makeJob("own", startedAt(epoch), func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](900) }),
				Now: epoch.Add(451 * time.Second), Pods: []corev1.Pod{{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes",
				}}}}},
			},
			wantAction: BuildSuspend, wantReason: v1alpha1.ReasonUnschedulable, wantMessage: "0/1 nodes",
		},
		"refused a pod": {
			state: BuildState{Job: makeJob("own", startedAt(epoch)), Now: epoch.Add(time.Second),
				Refused: &Fault{Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota"}},
			wantAction: BuildSuspend, wantReason: v1alpha1.ReasonQuotaExceeded, wantMessage: "gets no pod: exceeded quota",
		},
		"pauses": {
			state:      BuildState{Job: heldJob(), MaxConcurrent: 1, Now: epoch},
			wantAction: BuildHold, wantReason: v1alpha1.ReasonQuotaExceeded, wantMessage: "exceeded quota",
		},
		"pauses, and the user asks": {
			state: BuildState{Job: heldJob(), MaxConcurrent: 1, Now: epoch, RetryAsked: "now"}, wantAction: BuildStart,
		},
		"has paused": {
			state: BuildState{Job: heldJob(), MaxConcurrent: 1, Now: epoch.Add(time.Minute)}, wantAction: BuildStart,
		},
		"image of a step cannot be pulled": {
			state: BuildState{Job: makeJob("own"), Pods: []corev1.Pod{{Status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{{Name: resources.BuildKaniko, State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}}}}},
			wantAction: BuildWait, wantReason: v1alpha1.ReasonBuilding, wantMessage: "kaniko of the build waits: ImagePullBackOff",
		},
		"out of memory": {
			state:      BuildState{Job: failedJob, Pods: []corev1.Pod{failedBuildPod(resources.BuildKaniko, 137, "")}},
			wantAction: BuildFailed, wantReason: v1alpha1.ReasonBuildOutOfMemory, wantMessage: "137",
		},
		"install failed": {
			state: BuildState{Job: failedJob, Pods: []corev1.Pod{
				failedBuildPod(resources.BuildKaniko, 1, "time=\"2026-01-01T00:00:00Z\" level=info msg=\"Unpacking\"\nnpm error code E404\nnpm error 404 not found"),
			}},
			wantAction: BuildFailed, wantReason: v1alpha1.ReasonBuildFailed, wantMessage: "npm error code E404\nnpm error 404 not found",
		},
		"store gone during fetch": {
			state: BuildState{Job: failedJob, Pods: []corev1.Pod{
				failedBuildPod(resources.BuildFetch, 1, "StoreUnavailable: connection refused"),
			}},
			wantAction: BuildDelete, wantReason: v1alpha1.ReasonStoreUnavailable, wantMessage: "connection refused",
		},
		"store gone a moment ago": {
			state: BuildState{Job: failedJob, Now: epoch.Add(retryBase - 1), Pods: []corev1.Pod{
				failedBuildPod(resources.BuildFetch, 1, "StoreUnavailable: connection refused"),
			}},
			wantAction: BuildHold, wantReason: v1alpha1.ReasonStoreUnavailable, wantMessage: "connection refused",
		},
		"push refused for the third time": {
			state: BuildState{Job: failedJob, Now: epoch.Add(retryBase), Attempts: 2, Pods: []corev1.Pod{
				failedBuildPod(resources.BuildPush, 1, "PushFailed: 403"),
			}},
			wantAction: BuildHold, wantReason: "PushFailed", wantMessage: "403",
		},
		"registry gone during push": {
			state: BuildState{Job: failedJob, Pods: []corev1.Pod{
				failedBuildPod(resources.BuildPush, 1, "RegistryUnavailable: 503"),
			}},
			wantAction: BuildDelete, wantReason: v1alpha1.ReasonRegistryUnavailable, wantMessage: "503",
		},
		"too long": {
			state: BuildState{Job: makeJob("own", ended(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded),
				func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](900) })},
			wantAction: BuildFailed, wantReason: v1alpha1.ReasonBuildTimedOut, wantMessage: "900 s",
		},
		"pod gone": {
			state: BuildState{Job: failedJob}, wantAction: BuildDelete, wantReason: v1alpha1.ReasonInternalError,
		},
		"the user asks again": {
			state: BuildState{Job: failedJob, RetryAsked: "now",
				Pods: []corev1.Pod{failedBuildPod(resources.BuildKaniko, 1, "no")}},
			wantAction: BuildDelete,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.state.Now.IsZero() {
				tc.state.Now = epoch.Add(retryMax)
			}
			got := NextBuildStep(tc.state)
			if got.Action != tc.wantAction || got.Reason != tc.wantReason || !strings.Contains(got.Message, tc.wantMessage) ||
				got.Round != tc.wantRound {
				t.Errorf("NextBuildStep = %+v, want action %d, reason %q, message with %q, round %d",
					got, tc.wantAction, tc.wantReason, tc.wantMessage, tc.wantRound)
			}
		})
	}
}

func TestBuildQueue(t *testing.T) {
	t.Parallel()
	own := makeJob("own", suspended, created(time.Minute))
	running := func(name string) batchv1.Job { return *makeJob(name, created(time.Hour)) }
	queued := func(name string, at time.Duration) batchv1.Job { return *makeJob(name, suspended, created(at)) }
	done := func(name string) batchv1.Job { return *makeJob(name, ended(batchv1.JobComplete, "")) }
	tests := map[string]struct {
		others []batchv1.Job
		max    int
		want   BuildStep
	}{
		"alone":                {max: 1, want: BuildStep{Action: BuildStart}},
		"room beside one":      {max: 2, others: []batchv1.Job{running("a")}, want: BuildStep{Action: BuildStart}},
		"ended ones count not": {max: 1, others: []batchv1.Job{done("a"), done("b")}, want: BuildStep{Action: BuildStart}},
		"younger ones wait":    {max: 1, others: []batchv1.Job{queued("a", time.Hour)}, want: BuildStep{Action: BuildStart}},
		"no room": {max: 1, others: []batchv1.Job{running("a")}, want: BuildStep{
			Reason: v1alpha1.ReasonBuildQueued, Message: "waits for a free build slot, position 1; 1 builds run at once"}},
		"second in the queue": {max: 1, others: []batchv1.Job{running("a"), queued("b", time.Second)}, want: BuildStep{
			Reason: v1alpha1.ReasonBuildQueued, Message: "waits for a free build slot, position 2; 1 builds run at once"}},
		"those that pause stand aside": {
			max: 1, others: []batchv1.Job{*heldJob()}, want: BuildStep{Action: BuildStart},
		},
		"names break ties": {max: 1, others: []batchv1.Job{queued("aaa", time.Minute)}, want: BuildStep{
			Reason: v1alpha1.ReasonBuildQueued, Message: "waits for a free build slot, position 1; 1 builds run at once"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := NextBuildStep(BuildState{Job: own, Jobs: append(tc.others, *own), MaxConcurrent: tc.max, Now: epoch})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("NextBuildStep (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPausesOfRefusedBuildsGrow(t *testing.T) {
	t.Parallel()
	pause := func(times int) time.Duration {
		job := makeJob("own", startedAt(epoch))
		resources.Hold(job, resources.Held{Times: times})
		return NextBuildStep(BuildState{Job: job, Now: epoch, Refused: &Fault{}}).After
	}
	got := []time.Duration{pause(0), pause(1), pause(2), pause(6), pause(60)}
	want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 10 * time.Minute, 10 * time.Minute}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
}

// However the queue is ordered, it never starts more than there is room for, and always starts somebody when there is.
func TestBuildQueueNeverOverfillsAndNeverStalls(t *testing.T) {
	t.Parallel()
	const slots = 3
	jobs := []batchv1.Job{}
	for i := range 10 {
		jobs = append(jobs, *makeJob(string(rune('a'+i)), suspended, created(time.Duration(i%4)*time.Second)))
	}
	running := 0
	for changed := true; changed; {
		changed = false
		for i := range jobs {
			step := NextBuildStep(BuildState{Job: &jobs[i], Jobs: jobs, MaxConcurrent: slots})
			if step.Action == BuildStart {
				jobs[i].Spec.Suspend = new(false)
				running, changed = running+1, true
			}
		}
	}
	if running != slots {
		t.Errorf("%d builds run, want %d", running, slots)
	}
}

func TestRetryDelayGrowsToABound(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for attempts := range 100 {
		delay := retryDelay(attempts)
		if delay < last || delay > retryMax || delay < retryBase {
			t.Fatalf("attempt %d waits %s after %s", attempts, delay, last)
		}
		last = delay
	}
	if last != retryMax {
		t.Errorf("the longest pause is %s, want %s", last, retryMax)
	}
}

func TestBuildLogTail(t *testing.T) {
	t.Parallel()
	long := "cut off\n" + strings.Repeat("x", kubeletTail) + "\n" + strings.Repeat("level=info msg=noise\nline\n\n", 40) +
		"npm error 404\nnpm error   /tmp/sless-install/.npm/_logs/x.log\nlast\nerror building image: exit status 1"
	got := strings.Split(buildLogTail(long), "\n")
	if short := buildLogTail("first\nsecond"); short != "first\nsecond" {
		t.Errorf("a short log loses lines: %q", short)
	}
	if len(got) != buildLogTailLines || got[len(got)-1] != "last" || strings.Contains(strings.Join(got, ""), "noise") ||
		strings.Contains(strings.Join(got, ""), "npm error") {
		t.Errorf("buildLogTail keeps %d lines: %q", len(got), got)
	}
}
