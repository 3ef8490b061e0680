// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/internal/naming"
)

const (
	interceptorNamespace = "keda"
	interceptorService   = "keda-add-ons-http-interceptor-proxy"
	coldStartHeader      = "X-Keda-Http-Cold-Start"
	wakeTimeout          = time.Minute
	// eventsWait is how long events may lag behind the answer.
	eventsWait = 300 * time.Millisecond
	// maxIdle spreads the calls over the ticks of everything that ticks.
	maxIdle = 1200 * time.Millisecond
)

// waker is who scales the Deployment up when a call comes.
type waker string

const (
	wakerKEDA   waker = "KEDA"
	wakerCaller waker = "caller"
)

// wake is one function at zero that is called.
type wake struct {
	*bench
	deployment *appsv1.Deployment
	number     int
	address    string
}

// wakes collects the results of waking one function over and over.
type wakes struct {
	answer sample
	parts  map[string]*sample
	stages *stages
	// earlyProbes counts the runs in which a readiness probe failed before the pod was ready.
	earlyProbes int
}

// wakeParts names the parts of the wait, with the milestone that ends each. It follows the order of the milestones.
func wakeParts() []struct {
	name string
	end  milestone
} {
	return []struct {
		name string
		end  milestone
	}{
		{"control", scaled}, {"schedule", scheduled}, {"start", started}, {"load", loaded}, {"notice", endpoint},
		{"handler", answered},
	}
}

// measureWake calls functions that have no pod, through KEDA's interceptor, and waits for the answer. The functions are
// copies of what sless makes. Without KEDA nothing is measured.
func measureWake(ctx context.Context, b *bench, runs int) ([]*table, error) {
	_, err := b.client.RESTMapper().RESTMapping(schema.GroupKind{Group: "http.keda.sh", Kind: "InterceptorRoute"})
	if meta.IsNoMatchError(err) {
		b.say("Skipping wake: KEDA's http-add-on is not on this cluster; on the local one run make cluster-deploy KEDA=1")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	patch := []byte(nil)
	if b.opts.wakePatch != "" {
		if patch, err = os.ReadFile(b.opts.wakePatch); err != nil {
			return nil, fmt.Errorf("reading the patch: %w", err)
		}
	}
	summary := &table{
		block: "wake", title: "The first call of a function at zero",
		columns: append(sampleColumns("function, who wakes it"), "probe failed first"),
	}
	tables := []*table{summary}
	for _, p := range b.programs() {
		w, err := b.newWake(ctx, p, patch)
		if err != nil {
			return tables, errors.Join(err, w.remove(ctx))
		}
		for _, who := range []waker{wakerKEDA, wakerCaller} {
			made, err := w.measure(ctx, who, runs)
			summary.add(append(made.answer.row(), itoa(made.earlyProbes))...)
			tables = append(tables, made.tables(p.runtime, who)...)
			if err != nil {
				return tables, errors.Join(err, w.remove(ctx))
			}
		}
		if err := w.remove(ctx); err != nil {
			return tables, err
		}
	}
	return tables, nil
}

// newWake deploys a program by sless, so that its image is built, and makes a copy that scales.
func (b *bench) newWake(ctx context.Context, p program, patch []byte) (*wake, error) {
	name := "wake-" + strings.ReplaceAll(p.runtime, ".", "-")
	w := &wake{bench: b, number: int(b.began.Unix() % 1_000_000)}
	b.say("Deploying %s", name)
	if _, err := b.deploy(ctx, p.function(name, w.number)); err != nil {
		return w, err
	}
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: interceptorNamespace, Name: interceptorService}
	if err := b.client.Get(ctx, key, service); err != nil {
		return w, fmt.Errorf("looking up the interceptor: %w", err)
	}
	w.address = net.JoinHostPort(service.Spec.ClusterIP, "8080")
	original := &appsv1.Deployment{}
	key = client.ObjectKey{Namespace: naming.DeployNamespace(benchNamespace), Name: name}
	if err := b.client.Get(ctx, key, original); err != nil {
		return w, fmt.Errorf("looking up the Deployment: %w", err)
	}
	copied, err := wakeDeployment(original, name+"-copy", patch)
	if err != nil {
		return w, err
	}
	w.deployment = copied
	for _, obj := range []client.Object{copied, wakeService(copied), wakeRoute(copied), wakeScaledObject(copied)} {
		if err := b.applyObject(ctx, obj); err != nil {
			return w, err
		}
	}
	return w, w.waitScaler(ctx)
}

func (b *bench) applyObject(ctx context.Context, obj client.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	delete(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	applied := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields})
	if err := b.client.Apply(ctx, applied, fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName(), err)
	}
	return nil
}

// waitScaler waits until KEDA says that it takes care of the function.
func (w *wake) waitScaler(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		obj := wakeScaledObject(w.deployment)
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return fmt.Errorf("reading the ScaledObject: %w", err)
		}
		conditions, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
		if err != nil {
			return err
		}
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["status"] == string(metav1.ConditionTrue) {
				return nil
			}
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("KEDA did not take the ScaledObject: %w", err)
		}
	}
}

// measure wakes the function over and over.
func (w *wake) measure(ctx context.Context, who waker, runs int) (*wakes, error) {
	result := &wakes{
		answer: sample{name: fmt.Sprintf("%s, %s", w.deployment.Name, who)}, stages: newStages(), parts: map[string]*sample{},
	}
	for i := range runs {
		if err := w.toZero(ctx); err != nil {
			return result, err
		}
		if err := w.once(ctx, who, result); err != nil {
			result.answer.failures++
			w.wrongAnswer("wake %d of %d of %s: %v", i+1, runs, w.deployment.Name, err)
			continue
		}
		w.say("%s, wake %d of %d: answer after %s", result.answer.name, i+1, runs,
			showDuration(result.answer.values[len(result.answer.values)-1]))
	}
	return result, nil
}

// toZero scales the function to zero and waits until nothing is left of its pods.
func (w *wake) toZero(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		if err := w.scale(ctx, 0); err != nil {
			return err
		}
		pods := &corev1.PodList{}
		err := w.client.List(ctx, pods, client.InNamespace(w.deployment.Namespace), client.MatchingLabels(w.deployment.Labels))
		if err != nil {
			return fmt.Errorf("listing the pods: %w", err)
		}
		if len(pods.Items) == 0 {
			// The interceptor has to learn it too.
			return sleep(ctx, eventsWait+rand.N(maxIdle))
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%d pods are still there: %w", len(pods.Items), err)
		}
	}
}

func (w *wake) scale(ctx context.Context, replicas int32) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: w.deployment.Name, Namespace: w.deployment.Namespace}}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	err := w.client.SubResource("scale").Update(ctx, d, client.WithSubResourceBody(scale))
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("scaling to %d: %w", replicas, err)
	}
	return nil
}

// once calls the function at zero once.
func (w *wake) once(ctx context.Context, who waker, result *wakes) error {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	w.records.reset()
	began := w.now()
	scaling := make(chan error, 1)
	go func() {
		if who == wakerCaller {
			scaling <- w.scale(ctx, 1)
			return
		}
		scaling <- nil
	}()
	err := w.call(ctx)
	end := w.now()
	if err := errors.Join(err, <-scaling); err != nil {
		return err
	}
	if err := sleep(ctx, eventsWait); err != nil {
		return err
	}
	s := w.seen(ctx)
	s.reached[answered] = end
	result.add(began, s)
	if w.opts.verbose {
		w.sayStages(began, inOrder(order(), s.reached))
	}
	return nil
}

// call sends one call through the interceptor.
func (w *wake) call(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.address+"/", nil)
	if err != nil {
		return err
	}
	req.Host, req.Close = wakeHost(w.deployment), true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s: %.200q", resp.Status, body)
	}
	if resp.Header.Get(coldStartHeader) != "true" {
		return errors.New("the function was not at zero")
	}
	number, err := numberOf(body)
	if err == nil && number != w.number {
		err = fmt.Errorf("the answer is %d, but should be %d", number, w.number)
	}
	return err
}

// seen reads what the records say of one wake.
func (w *wake) seen(ctx context.Context) seen {
	s, records := seen{reached: timeline{}}, w.records.all()
	t := s.reached
	at, ok := first(records, func(_ record, d *appsv1.Deployment) bool {
		return d.Name == w.deployment.Name && d.Spec.Replicas != nil && *d.Spec.Replicas > 0
	})
	t.set(scaled, at, ok)
	pod := &corev1.Pod{}
	at, ok = first(records, func(r record, p *corev1.Pod) bool {
		pod = p
		return r.added && p.Labels[wakeLabel] == w.deployment.Name
	})
	t.set(podMade, at, ok)
	if !ok {
		return s
	}
	podMilestones(t, records, pod.UID)
	s.pod, s.earlyProbes = pod.Name, probeFailures(records, pod.UID, t[podReady])
	at, ok = w.handlerLoaded(ctx, benchNamespace, pod.Name)
	t.set(loaded, at, ok)
	return s
}

func (r *wakes) add(began time.Time, s seen) {
	t := inOrder(order(), s.reached)
	if s.earlyProbes > 0 {
		r.earlyProbes++
	}
	r.answer.add(t[answered].Sub(began))
	r.stages.add(began, t)
	before := began
	for _, part := range wakeParts() {
		at, ok := t[part.end]
		if !ok {
			continue
		}
		if r.parts[part.name] == nil {
			r.parts[part.name] = &sample{name: part.name}
		}
		r.parts[part.name].add(at.Sub(before))
		before = at
	}
}

func (r *wakes) tables(runtimeName string, who waker) []*table {
	suffix := "-" + runtimeName + "-" + strings.ToLower(string(who))
	parts := &table{
		block: "wake-parts" + suffix, title: "The parts of the wait, " + r.answer.name, columns: sampleColumns("part"),
	}
	for _, part := range wakeParts() {
		if s := r.parts[part.name]; s != nil {
			parts.rows = append(parts.rows, s.row())
		}
	}
	all := r.stages.table("wake-stages"+suffix, "Where the time of a first call goes, "+r.answer.name)
	all.columns[len(all.columns)-1] = "median since the call"
	return []*table{parts, all}
}

// remove takes away what newWake made, apart from the Function, which is removed at the end. It waits, since the next
// invocation makes objects of the same names.
func (w *wake) remove(ctx context.Context) error {
	if w == nil || w.deployment == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	var errs []error
	// KEDA lets go first.
	for _, obj := range []client.Object{
		wakeScaledObject(w.deployment), wakeRoute(w.deployment), wakeService(w.deployment), w.deployment.DeepCopy(),
	} {
		errs = append(errs, w.removeObject(ctx, obj))
	}
	return errors.Join(errs...)
}

func (b *bench) removeObject(ctx context.Context, obj client.Object) error {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	err := b.client.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationForeground))
	for err == nil {
		if err = b.client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err == nil {
			err = sleep(ctx, pause)
		}
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing %s %s: %w", kind, obj.GetName(), err)
	}
	return nil
}
