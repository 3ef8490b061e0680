// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/hack/internal/progress"
)

const (
	readyTimeout  = 10 * time.Minute
	pollInterval  = 200 * time.Millisecond
	callTimeout   = 30 * time.Second
	maxAnswer     = 64 << 10
	demoNamespace = "default"
	// fieldOwner is kubectl's own, so that a later kubectl apply --server-side goes on from here.
	fieldOwner = client.FieldOwner("kubectl")
)

// story is one sample function: what is applied, how it is called and what it must answer.
type story struct {
	file string
	// body is sent by POST.
	body string
	// want must be part of the answer.
	want string

	url, answer       string
	untilReady, calls time.Duration
}

func sampleStories() []*story {
	return []*story{
		{file: "v1alpha1_function_python.yaml", body: `{"name":"Ada"}`, want: `"Hello, Ada!"`},
		{file: "v1alpha1_function_nodejs.yaml", body: `{"title":"Scale to Zero & Back"}`, want: `"scale-to-zero-and-back"`},
	}
}

// showFunctions applies the samples, waits until they are ready, calls them and checks their answers.
func showFunctions(ctx context.Context, printer *progress.Printer, kubeconfig, checkout string) ([]*story, error) {
	stories := sampleStories()
	c, err := newClient(kubeconfig)
	if err != nil {
		return stories, err
	}
	for _, s := range stories {
		fn, err := readFunction(filepath.Join(checkout, "config", "samples", s.file))
		if err != nil {
			return stories, err
		}
		if err := s.show(ctx, printer, c, fn); err != nil {
			return stories, err
		}
	}
	return stories, nil
}

func (s *story) show(ctx context.Context, printer *progress.Printer, c client.Client, fn *v1alpha1.Function) error {
	began := time.Now()
	title := "kubectl apply --server-side -f config/samples/" + s.file
	err := printer.Step(title, func(say progress.Say) (string, error) {
		if err := applyFunction(ctx, c, fn); err != nil {
			return "", err
		}
		return "ready", waitReady(ctx, printer, c, fn, say)
	})
	s.untilReady = time.Since(began)
	if err != nil {
		return err
	}
	s.url = fn.Status.URL
	began = time.Now()
	err = printer.Step(fmt.Sprintf("curl --json '%s' %s", s.body, s.url), func(progress.Say) (string, error) {
		s.answer, err = call(ctx, s.url, s.body)
		if err == nil && !strings.Contains(s.answer, s.want) {
			err = fmt.Errorf("the answer is %s, but should contain %s", s.answer, s.want)
		}
		return s.answer, err
	})
	s.calls = time.Since(began)
	return err
}

// applyFunction applies by server-side apply, as kubectl apply --server-side does.
func applyFunction(ctx context.Context, c client.Client, fn *v1alpha1.Function) error {
	data, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fn)
	if err != nil {
		return err
	}
	delete(data, "status")
	return applyUnstructured(ctx, c, data)
}

// waitReady prints what the Ready condition says whenever it changes, until it is True for what was applied.
func waitReady(ctx context.Context, printer *progress.Printer, c client.Client, fn *v1alpha1.Function, say progress.Say) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	last := ""
	for {
		if err := c.Get(ctx, client.ObjectKeyFromObject(fn), fn); err != nil {
			return fmt.Errorf("reading Function %s: %w", fn.Name, err)
		}
		condition := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionReady)
		if condition != nil && condition.ObservedGeneration == fn.Generation {
			now := condition.Reason + ": " + condition.Message
			if now != last {
				printer.Printf("  %s %s", fn.Name, now)
				last = now
			}
			say("%s %s", fn.Name, now)
			if condition.Status == "True" {
				return nil
			}
			if meta.IsStatusConditionTrue(fn.Status.Conditions, v1alpha1.ConditionStalled) {
				return fmt.Errorf("function %s will not get ready: %s", fn.Name, now)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("function %s did not get ready within %s; the last word was %q", fn.Name, readyTimeout, last)
		case <-time.After(pollInterval):
		}
	}
}

func call(ctx context.Context, url, body string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the function answered %s: %s", resp.Status, answer)
	}
	return strings.TrimSpace(string(answer)), nil
}

func readFunction(path string) (*v1alpha1.Function, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fn := &v1alpha1.Function{}
	if err := yaml.UnmarshalStrict(data, fn); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if fn.Namespace == "" {
		fn.Namespace = demoNamespace
	}
	return fn, nil
}

func newClient(kubeconfig string) (client.Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if kubeconfig != "" {
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	}
	var cfg *rest.Config
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: scheme})
}

// printSummary prints what people came to see: the addresses, the answers and the times.
func printSummary(w io.Writer, deployed time.Duration, stories []*story) {
	_, _ = fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "cluster and sless\tready in %.1f s\n", deployed.Seconds())
	for _, s := range stories {
		if s.answer == "" {
			continue
		}
		_, _ = fmt.Fprintf(table, "%s\tapply to ready %.1f s, call %.0f ms\n", s.url, s.untilReady.Seconds(),
			float64(s.calls.Microseconds())/1000)
		_, _ = fmt.Fprintf(table, "\t%s\n", s.answer)
	}
	_ = table.Flush()
}

// printNext tells how to go on by hand.
func printNext(w io.Writer, d *deployment) {
	_, _ = fmt.Fprintf(w, "\nGo on by hand:\n")
	for _, line := range []string{
		"export KUBECONFIG=" + d.kubeconfig, "export PATH=$PATH:" + filepath.Dir(d.kubectl), "kubectl get functions",
		"make cluster-down   # takes everything away again",
	} {
		_, _ = fmt.Fprintln(w, "  "+line)
	}
}
