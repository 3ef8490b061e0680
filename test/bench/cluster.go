// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-logr/logr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

const (
	benchNamespace = "sless-bench"
	buildNamespace = "sless-builds"
	fieldOwner     = client.FieldOwner("sless-bench")
	removeTimeout  = 2 * time.Minute
	settleTimeout  = 2 * time.Minute
	pause          = 50 * time.Millisecond
)

// bench is what all benchmarks work with.
type bench struct {
	opts    options
	client  client.Client
	kube    kubernetes.Interface
	records *recorder
	now     func() time.Time
	began   time.Time
	stop    context.CancelFunc

	made       map[string]bool
	wrong      int
	firstWrong string
}

// newBench connects to the cluster, makes the namespace and begins to watch.
func newBench(ctx context.Context, opts options) (*bench, error) {
	ctrl.SetLogger(logr.Discard())
	config, err := clusterConfig(opts.cluster)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	b := &bench{opts: opts, now: time.Now, began: time.Now(), made: map[string]bool{}}
	if b.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	if b.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: benchNamespace}}
	if err := b.client.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return nil, fmt.Errorf("making namespace %s: %w", benchNamespace, err)
	}
	err = b.client.List(ctx, &v1alpha1.FunctionList{}, client.InNamespace(benchNamespace))
	if meta.IsNoMatchError(err) {
		return nil, errors.New("sless is not installed on this cluster; on the local one run make cluster-deploy")
	}
	if err != nil {
		return nil, fmt.Errorf("listing Functions: %w", err)
	}
	watchCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	if b.records, err = startRecorder(watchCtx, config, scheme, b.now); err != nil {
		stop()
		return nil, err
	}
	return b, nil
}

func clusterConfig(cluster string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if cluster == clusterLocal {
		if _, err := os.Stat(localKubeconfig); err != nil {
			return nil, errors.New("the local cluster is not there; run make cluster-deploy, in the top folder")
		}
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: localKubeconfig}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return config, nil
}

// say tells what goes on, beside the tables.
func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", b.now().Sub(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// wrongAnswer counts an answer that makes the whole command fail at its end.
func (b *bench) wrongAnswer(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if b.wrong == 0 {
		b.firstWrong = text
	}
	b.wrong++
	b.say("WRONG: %s", text)
}

// programs are those of the chosen runtimes.
func (b *bench) programs() []program {
	chosen := []program{}
	for _, p := range programs() {
		for _, name := range b.opts.runtimes {
			if p.runtime == name {
				chosen = append(chosen, p)
			}
		}
	}
	return chosen
}

// apply sends the Function by server-side apply, as kubectl apply --server-side does, and returns what is stored.
func (b *bench) apply(ctx context.Context, fn *v1alpha1.Function) (*v1alpha1.Function, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fn)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	obj := &unstructured.Unstructured{Object: fields}
	b.made[fn.Name] = true
	err = b.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), fieldOwner, client.ForceOwnership)
	if err != nil {
		return nil, fmt.Errorf("applying Function %s: %w", fn.Name, err)
	}
	stored := &v1alpha1.Function{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, stored); err != nil {
		return nil, err
	}
	return stored, nil
}

// deploy applies a Function and waits until it is ready and settled. It returns the Function as read last.
func (b *bench) deploy(ctx context.Context, fn *v1alpha1.Function) (*v1alpha1.Function, error) {
	stored, err := b.apply(ctx, fn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	for {
		if err := b.client.Get(ctx, client.ObjectKeyFromObject(fn), stored); err != nil {
			return nil, fmt.Errorf("reading Function %s: %w", fn.Name, err)
		}
		if isReady(stored, stored.Generation) {
			return stored, b.settle(ctx, fn.Name)
		}
		if stalled := stalledBecause(stored); stalled != "" {
			return nil, fmt.Errorf("function %s will not get ready: %s", fn.Name, stalled)
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("function %s did not get ready within %s: %w", fn.Name, buildTimeout, err)
		}
	}
}

// settle waits until the Function has no more than one pod, so that no pod on its way out disturbs the next run. One that
// scales may have none.
func (b *bench) settle(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		pods := &corev1.PodList{}
		err := b.client.List(ctx, pods, client.InNamespace(naming.DeployNamespace(benchNamespace)),
			client.MatchingLabels{v1alpha1.LabelFunction: name})
		if err != nil {
			return fmt.Errorf("listing the pods of %s: %w", name, err)
		}
		if len(pods.Items) <= 1 {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%s still has %d pods: %w", name, len(pods.Items), err)
		}
	}
}

// isReady tells whether the status says Ready about this generation of the spec.
func isReady(fn *v1alpha1.Function, generation int64) bool {
	ready := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == generation
}

// stalledBecause returns why the Function's wanted version will never run, or "".
func stalledBecause(fn *v1alpha1.Function) string {
	stalled := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue || stalled.ObservedGeneration != fn.Generation {
		return ""
	}
	return stalled.Reason + ": " + stalled.Message
}

// close removes what was made, but for the namespaces, and stops watching. It works also when ctx has ended.
func (b *bench) close(ctx context.Context) error {
	defer b.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	var errs []error
	for name := range b.made {
		b.say("Removing %s", name)
		fn := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: benchNamespace}}
		errs = append(errs, client.IgnoreNotFound(b.client.Delete(ctx, fn)))
	}
	for name := range b.made {
		key := client.ObjectKey{Namespace: benchNamespace, Name: name}
		var err error
		for err == nil {
			if err = b.client.Get(ctx, key, &v1alpha1.Function{}); err == nil {
				err = sleep(ctx, pause)
			}
		}
		if !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("removing Function %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
