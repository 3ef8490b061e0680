// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/git/credential"
	"github.com/naeel/sless/internal/git/report"
)

// gitUserFaults are the reasons that trying again soon does not help with.
var gitUserFaults = map[string]bool{
	v1alpha1.ReasonGitAuthFailed: true, v1alpha1.ReasonGitRepositoryNotFound: true, v1alpha1.ReasonGitRevisionNotFound: true,
	v1alpha1.ReasonGitPathNotFound: true, v1alpha1.ReasonGitRedirected: true, v1alpha1.ReasonGitTLSFailed: true,
	v1alpha1.ReasonGitHostKeyRefused: true, v1alpha1.ReasonGitSecretInvalid: true,
	v1alpha1.ReasonSourceTooLarge: true, v1alpha1.ReasonSourceInvalid: true,
}

// gitPlatformFaults are the reasons that are tried again with growing pauses.
var gitPlatformFaults = map[string]bool{
	v1alpha1.ReasonGitUnreachable: true, v1alpha1.ReasonGitTimedOut: true, v1alpha1.ReasonGitFailed: true,
	v1alpha1.ReasonStoreUnavailable: true, v1alpha1.ReasonStoreRefused: true,
}

// gitEnd is how a fetch ended.
type gitEnd struct {
	// fetched is its report, without a digest when the commit was the known one.
	fetched report.Fetched
	fault   *GitFault
	// unknown says that its pod, which carries the report, is not seen.
	unknown bool
}

// gitEndOf reads how a Job ended.
func gitEndOf(job *batchv1.Job, state GitState) gitEnd {
	if job == nil {
		return gitEnd{}
	}
	if deadlineExceeded(job) {
		return gitEnd{fault: &GitFault{
			Reason:  v1alpha1.ReasonGitTimedOut,
			Message: "the fetch did not end in time; look whether its pod could start and the server of the repository answers",
		}}
	}
	for _, pod := range podsOf(job, state.Pods) {
		if pod.Status.Reason == "Evicted" {
			return gitEnd{fault: tooLarge("the fetch was ended for what it took on the node: " + truncate(pod.Status.Message))}
		}
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Terminated != nil {
				return gitEndOfContainer(status.State.Terminated)
			}
		}
	}
	end := gitEnd{unknown: true}
	if state.Known.Digest == "" && state.Now.Sub(endedAt(job)) >= messageDelay {
		end.fault = &GitFault{Reason: v1alpha1.ReasonInternalError, Message: "the pod of the fetch is gone"}
	}
	return end
}

func gitEndOfContainer(end *corev1.ContainerStateTerminated) gitEnd {
	if end.ExitCode == 0 {
		fetched, err := report.Parse(end.Message)
		if err != nil {
			return gitEnd{fault: &GitFault{Reason: v1alpha1.ReasonInternalError, Message: err.Error()}}
		}
		return gitEnd{fetched: fetched}
	}
	if end.ExitCode == exitKilled || end.Reason == reasonOOMKilled {
		return gitEnd{fault: tooLarge("the fetch took more memory than it may use (exit code 137); a file of the repository is too large")}
	}
	reason, message := splitReason(end.Message, v1alpha1.ReasonGitFailed)
	if !gitUserFaults[reason] && !gitPlatformFaults[reason] {
		// It is the end of a log, and no report.
		reason, message = v1alpha1.ReasonGitFailed, end.Message
	}
	return gitEnd{fault: &GitFault{Reason: reason, Message: truncate(message), User: gitUserFaults[reason]}}
}

func tooLarge(message string) *GitFault {
	return &GitFault{Reason: v1alpha1.ReasonSourceTooLarge, Message: message, User: true}
}

func deadlineExceeded(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue && c.Reason == batchv1.JobReasonDeadlineExceeded
	})
}

// IsSSH tells whether a repository is reached by SSH.
func IsSSH(url string) bool {
	return !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://")
}

// GitCredentials picks from a Secret what a fetch needs. The error is a sentence for the user.
func GitCredentials(url string, data map[string][]byte) (map[string][]byte, error) {
	wanted := []string{credential.Username, credential.Password, credential.Token, credential.Authority}
	if IsSSH(url) {
		wanted = []string{credential.Identity, credential.KnownHosts, credential.Password}
	}
	picked := map[string][]byte{}
	for _, key := range wanted {
		value := data[key]
		if key != credential.Identity && key != credential.KnownHosts && key != credential.Authority {
			// A line end that an editor left is no part of a password.
			value = bytes.TrimRight(value, "\r\n")
		}
		if len(value) > 0 {
			picked[key] = value
		}
	}
	has := func(key string) bool { return len(picked[key]) > 0 }
	switch {
	case IsSSH(url) && !has(credential.Identity):
		return nil, errors.New("has no key identity with the private key, which a repository by SSH needs")
	case IsSSH(url) && !has(credential.KnownHosts):
		return nil, errors.New("has no key known_hosts; without it nobody knows whether the server is the right one")
	case IsSSH(url):
		return picked, nil
	case !has(credential.Password) && !has(credential.Token) && !has(credential.Authority):
		return nil, fmt.Errorf("has none of the keys %s, %s and %s", credential.Password, credential.Token, credential.Authority)
	}
	return picked, nil
}
