// SPDX-License-Identifier: Apache-2.0

// Package termination writes the message that Kubernetes shows as the reason why a container ended.
package termination

import (
	"os"
	"strings"
)

// DefaultPath is where the kubelet reads the message from.
const DefaultPath = "/dev/termination-log"

// MaxBytes is how much of a message the kubelet keeps.
const MaxBytes = 4096

// Reasons. A message is one line, "<Reason>: <sentence>", except the result of a job that succeeded, which is JSON.
const (
	HandlerLoadFailed = "HandlerLoadFailed"
	HandlerCrashed    = "HandlerCrashed"
	HandlerTimeout    = "HandlerTimeout"
	// HandlerFailed is an exception of the handler, or an answer with a status of 400 or more, in a job.
	HandlerFailed = "HandlerFailed"
	// OOMKilled is a job whose worker was killed because the container's memory ran out.
	OOMKilled = "OOMKilled"
	// ResultTruncated says that a job succeeded with a result over MaxBytes.
	ResultTruncated = "ResultTruncated"
	// Interrupted is a job that was told to stop before its handler was done.
	Interrupted = "Interrupted"
	// BadConfiguration is a mistake in the arguments of the watchdog itself.
	BadConfiguration = "BadConfiguration"
)

// Line returns a message of one line.
func Line(reason, sentence string) string {
	return reason + ": " + strings.Join(strings.Fields(sentence), " ")
}

// Write writes a message to path, cut to MaxBytes. Outside Kubernetes there is no such file; then nothing is written.
func Write(path, message string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(message) > MaxBytes {
		message = strings.ToValidUTF8(message[:MaxBytes], "")
	}
	_, err = file.WriteString(message)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}
