// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// CronRun is the outcome of a run of a cron Trigger.
type CronRun struct {
	// Job is the name of its Job.
	Job string
	// Failed tells whether it failed, and Message why.
	Failed  bool
	Message string
	// Unseen tells that no pod says why it failed. It is gone, or what it said has not been heard of yet: Jobs and pods are
	// watched apart.
	Unseen bool
}

// LastCronRun returns the outcome of the run that ended last, or nil when none has. pods are those of the runs; they hold what
// the call said.
func LastCronRun(jobs []batchv1.Job, pods []corev1.Pod) *CronRun {
	var last *batchv1.Job
	var ended time.Time
	for i := range jobs {
		c := outcomeOf(&jobs[i])
		if c == nil {
			continue
		}
		later := cmp.Or(c.LastTransitionTime.Compare(ended), cmp.Compare(jobs[i].Name, nameOf(last)))
		if last == nil || later > 0 {
			last, ended = &jobs[i], c.LastTransitionTime.Time
		}
	}
	if last == nil {
		return nil
	}
	c := outcomeOf(last)
	if c.Type == batchv1.JobComplete {
		return &CronRun{Job: last.Name}
	}
	said := podMessage(last.Name, pods)
	return &CronRun{Job: last.Name, Failed: true, Message: truncate(cmp.Or(said, jobMessage(c))), Unseen: said == ""}
}

func nameOf(job *batchv1.Job) string {
	if job == nil {
		return ""
	}
	return job.Name
}

// outcomeOf returns the condition that ended a Job, or nil while it goes on.
func outcomeOf(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c
		}
	}
	return nil
}

// podMessage returns what the call of a Job said at its end, or nothing.
func podMessage(job string, pods []corev1.Pod) string {
	for i := range pods {
		if pods[i].Labels[batchv1.JobNameLabel] != job {
			continue
		}
		for _, s := range pods[i].Status.ContainerStatuses {
			t := s.State.Terminated
			switch {
			case t == nil:
				if w := s.State.Waiting; w != nil && w.Message != "" {
					return w.Reason + ": " + w.Message
				}
			case t.Message != "":
				return t.Message
			case t.ExitCode != 0:
				return fmt.Sprintf("the call ended with exit code %d (%s)", t.ExitCode, t.Reason)
			}
		}
	}
	return ""
}

func jobMessage(c *batchv1.JobCondition) string {
	if c.Reason == batchv1.JobReasonDeadlineExceeded {
		return "the call did not end in time"
	}
	return c.Message
}
