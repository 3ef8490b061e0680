// SPDX-License-Identifier: Apache-2.0

// Package builder holds the steps of a build pod that are our own: fetch brings the source from the object store into
// the pod, pull the image that the build starts from, and push brings the image that was built to the registry. clone, in
// a pod of its own, brings the files of a git repository to the object store. They hold credentials, so no code of a user
// runs in their containers; and they know nothing of Kubernetes. Beside them, invoke calls a function once, for a cron
// Trigger.
//
// A step that fails writes one line `<Reason>: <sentence>` to the termination log of its container, where the
// controller reads it, and exits with 1.
package builder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/naeel/sless/internal/git/report"
)

// Reasons of a step that failed.
const (
	// ReasonSourceFetchFailed means that the source is not in the object store, or could not be written to the pod.
	ReasonSourceFetchFailed = "SourceFetchFailed"
	// ReasonSourceCorrupt means that what is in the object store is not the archive with the wanted digest.
	ReasonSourceCorrupt = "SourceCorrupt"
	// ReasonPushFailed means that the image could not be pushed and trying again will not help.
	ReasonPushFailed = "PushFailed"
	// ReasonRegistryUnavailable means that the registry could not be reached.
	ReasonRegistryUnavailable = "RegistryUnavailable"
	// ReasonStoreUnavailable means that the object store could not be reached.
	ReasonStoreUnavailable = "StoreUnavailable"
	// ReasonStoreRefused means that the object store refuses, or is not trusted.
	ReasonStoreRefused = "StoreRefused"
)

const (
	defaultTerminationLog = "/dev/termination-log"

	// maxTerminationLog is what Kubernetes keeps of a termination log, in bytes.
	maxTerminationLog = 4096
)

// stepError is why a step failed.
type stepError struct {
	reason string
	err    error
}

func (e *stepError) Error() string { return e.reason + ": " + oneLine(e.err.Error()) }

func (e *stepError) Unwrap() error { return e.err }

// Program is the builder program. The zero value is ready to use.
type Program struct {
	// Getenv reads an environment variable, os.Getenv when nil.
	Getenv func(string) string
	// Stderr gets what a person reads, os.Stderr when nil.
	Stderr io.Writer
	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// Backoff says how often and how fast a store or registry that is unavailable is asked again. The zero value means
	// five tries in about 15 seconds, on top of the quick tries that each request makes.
	Backoff wait.Backoff

	terminationLog string
}

// Run runs the program with its arguments, without the program name, and gives the exit code.
func (p *Program) Run(ctx context.Context, args []string) int {
	if p.Getenv == nil {
		p.Getenv = os.Getenv
	}
	if p.Stderr == nil {
		p.Stderr = os.Stderr
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Backoff.Steps == 0 {
		p.Backoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 5}
	}
	command := p.command()
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var step *stepError
	if !errors.As(err, &step) {
		// The arguments are wrong. Whoever waits for the step needs a reason all the same.
		step = &stepError{usageReason(args), err}
	}
	p.printf("%v", step)
	p.terminate(step.Error())
	return 1
}

func usageReason(args []string) string {
	switch {
	case slices.Contains(args, "push"):
		return ReasonPushFailed
	case slices.Contains(args, "pull"):
		return ReasonPullFailed
	case slices.Contains(args, "clone"):
		return report.Failed
	case slices.Contains(args, "invoke"):
		return ReasonInvokeFailed
	}
	return ReasonSourceFetchFailed
}

func (p *Program) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "builder",
		Short:         "Steps of a build pod, and calls on a schedule",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(p.Stderr)
	root.SetErr(p.Stderr)
	root.PersistentFlags().StringVar(&p.terminationLog, "termination-log", defaultTerminationLog,
		"file for the result of the step")
	root.AddCommand(p.fetchCommand(), p.pullCommand(), p.pushCommand(), p.cloneCommand(), p.invokeCommand())
	return root
}

// terminate writes the result of the step. Outside a container there is no such file, and nobody to read it.
func (p *Program) terminate(message string) {
	if len(message) > maxTerminationLog {
		message = strings.ToValidUTF8(message[:maxTerminationLog], "")
	}
	if err := os.WriteFile(p.terminationLog, []byte(message), 0o644); err != nil {
		p.printf("Writing the termination log: %v", err)
	}
}

func (p *Program) printf(format string, args ...any) {
	// There is nobody left to tell when this fails.
	_, _ = fmt.Fprintf(p.Stderr, format+"\n", args...)
}

// retry calls do until it succeeds, fails for a reason that stays, the tries are used up, or ctx is done. The error is
// that of the last try.
func (p *Program) retry(ctx context.Context, mayPass func(error) bool, do func(context.Context) error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, p.Backoff, func(ctx context.Context) (bool, error) {
		last = do(ctx)
		if last == nil {
			return true, nil
		}
		if !mayPass(last) {
			return false, last
		}
		p.printf("Attempt failed: %v", last)
		return false, nil
	})
	if last != nil {
		return last
	}
	return err
}

// oneLine puts a message on one line, without what a terminal or a log could take for a command.
func oneLine(message string) string {
	return strings.Join(strings.FieldsFunc(message, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}
