// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/hack/internal/progress"
)

const (
	runFile    = "v1alpha1_functionjob.yaml"
	runTimeout = 2 * time.Minute
	// runWant is the result of the sample's run.
	runWant = `{"message":"Hello, Ada!"}`
)

// run is the sample of a FunctionJob: a function that runs once.
type run struct {
	name, result string
	took         time.Duration
}

// showRun applies the sample, waits for its end and checks the result. A sample that has run before, in an earlier demo,
// shows the result of then.
func showRun(ctx context.Context, printer *progress.Printer, kubeconfig, checkout string) (*run, error) {
	c, err := newClient(kubeconfig)
	if err != nil {
		return nil, err
	}
	fj, err := readFunctionJob(filepath.Join(checkout, "config", "samples", runFile))
	if err != nil {
		return nil, err
	}
	shown := &run{name: fj.Name}
	began := time.Now()
	err = printer.Step("kubectl apply --server-side -f config/samples/"+runFile, func(say progress.Say) (string, error) {
		data, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fj)
		if err != nil {
			return "", err
		}
		delete(data, "status")
		if err := applyUnstructured(ctx, c, data); err != nil {
			return "", err
		}
		shown.result, err = waitForRun(ctx, c, fj, say)
		return shown.result, err
	})
	shown.took = time.Since(began)
	return shown, err
}

// waitForRun waits until the run has ended and returns its result.
func waitForRun(ctx context.Context, c client.Client, fj *v1alpha1.FunctionJob, say progress.Say) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	for {
		if err := c.Get(ctx, client.ObjectKeyFromObject(fj), fj); err != nil {
			return "", fmt.Errorf("reading FunctionJob %s: %w", fj.Name, err)
		}
		if fj.Status.ObservedGeneration == fj.Generation {
			switch fj.Status.Phase {
			case v1alpha1.JobPhaseSucceeded:
				if fj.Status.Result == nil || string(fj.Status.Result.Raw) != runWant {
					return "", fmt.Errorf("the result of %s is not %s", fj.Name, runWant)
				}
				return string(fj.Status.Result.Raw), nil
			case v1alpha1.JobPhaseFailed:
				return "", fmt.Errorf("FunctionJob %s failed: %s", fj.Name, fj.Status.Message)
			}
			say("%s %s %s", fj.Name, fj.Status.Phase, fj.Status.Message)
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("FunctionJob %s did not end within %s; it is %s: %s", fj.Name, runTimeout, fj.Status.Phase, fj.Status.Message)
		case <-time.After(pollInterval):
		}
	}
}

func readFunctionJob(path string) (*v1alpha1.FunctionJob, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fj := &v1alpha1.FunctionJob{}
	if err := yaml.UnmarshalStrict(data, fj); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if fj.Namespace == "" {
		fj.Namespace = demoNamespace
	}
	return fj, nil
}

// printRun prints the result below those of the calls.
func printRun(w io.Writer, r *run) {
	if r == nil || r.result == "" {
		return
	}
	_, _ = fmt.Fprintf(w, "FunctionJob %s: apply to result %.1f s\n  %s\n", r.name, r.took.Seconds(), r.result)
}
