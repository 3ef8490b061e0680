// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

const (
	exitKilled      = 137
	reasonOOMKilled = "OOMKilled"
	// maxMessage bounds what a condition takes over from a container.
	maxMessage = 2048
)

// watchdogReasons are the words with which the watchdog begins a termination message.
var watchdogReasons = []string{v1alpha1.ReasonHandlerLoadFailed, v1alpha1.ReasonHandlerCrashed, "HandlerTimeout"}

// Fault is why the pods of a version do not become ready.
type Fault struct {
	Reason  string
	Message string
	// User is true when only a change of the Function, or of what it refers to, can help.
	User bool
}

// PodFault returns the fault of the oldest pod that has one, of those that carry the revision, or nil. The order of pods
// does not matter, so that a status does not change with it.
func PodFault(pods []corev1.Pod, revision string) *Fault {
	pods = byAge(pods)
	for i := range pods {
		pod := &pods[i]
		if pod.Labels[v1alpha1.LabelRevision] != revision || !pod.DeletionTimestamp.IsZero() || podReady(pod) {
			continue
		}
		if message := unschedulable(pod); message != "" {
			return &Fault{Reason: v1alpha1.ReasonUnschedulable, Message: "no node takes the pod: " + message}
		}
		for _, status := range pod.Status.ContainerStatuses {
			if status.Name != resources.ContainerName {
				continue
			}
			if fault := containerFault(status); fault != nil {
				return fault
			}
		}
	}
	return nil
}

// byAge returns pods in an order that is always the same, the oldest first.
func byAge(pods []corev1.Pod) []corev1.Pod {
	return slices.SortedFunc(slices.Values(pods), func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func unschedulable(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}

func containerFault(status corev1.ContainerStatus) *Fault {
	if w := status.State.Waiting; w != nil {
		switch w.Reason {
		case "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull":
			return &Fault{Reason: v1alpha1.ReasonImagePullFailed, Message: truncate(w.Message)}
		case "InvalidImageName":
			return &Fault{Reason: v1alpha1.ReasonImagePullFailed, Message: truncate(w.Message), User: true}
		case "CreateContainerConfigError":
			return &Fault{Reason: v1alpha1.ReasonConfigMissing, Message: truncate(w.Message), User: true}
		case "CreateContainerError":
			return &Fault{Reason: v1alpha1.ReasonContainerRefused, Message: "the node cannot make the container: " + truncate(w.Message)}
		}
	}
	end := status.State.Terminated
	if end == nil {
		end = status.LastTerminationState.Terminated
	}
	if end == nil {
		return nil
	}
	return endFault(end)
}

func endFault(end *corev1.ContainerStateTerminated) *Fault {
	if end.Reason == reasonOOMKilled {
		return &Fault{Reason: v1alpha1.ReasonOOMKilled, User: true,
			Message: "the function used more memory than resources.limits.memory allows; raise the limit"}
	}
	reason, message := splitReason(end.Message, v1alpha1.ReasonHandlerCrashed)
	if !slices.Contains(watchdogReasons, reason) {
		// The word is part of what the program said, such as the name of an exception.
		reason, message = v1alpha1.ReasonHandlerCrashed, truncate(strings.TrimSpace(end.Message))
	}
	if message == "" {
		message = fmt.Sprintf("the function's process ended with exit code %d", end.ExitCode)
	}
	return &Fault{Reason: reason, Message: message, User: true}
}

// splitReason splits `<Reason>: <sentence>`, as our programs write it into the termination log. Text of another form keeps
// the fallback as its reason.
func splitReason(text, fallback string) (reason, message string) {
	text = strings.TrimSpace(text)
	word, rest, ok := strings.Cut(text, ": ")
	if ok && word != "" && !strings.ContainsAny(word, " \n\t") {
		return word, truncate(rest)
	}
	return fallback, truncate(text)
}

func truncate(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + " …"
}
