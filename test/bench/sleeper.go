// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

const (
	coldStartHeader = "X-Sless-Cold-Start"
	timingHeader    = "Server-Timing"
	waitTiming      = "wait"
	// sleeperIdle is the least idleSeconds there is, so that a function that was called is soon forgotten.
	sleeperIdle = 1
	// maxSpread spreads the calls over the ticks of everything that ticks.
	maxSpread = 1200 * time.Millisecond
	// forgotten is how long after a call the autoscaler may still know of it: a little more than the window of the rate.
	forgotten = 3 * time.Second
)

// sleeper is a Function that scales to zero and is called through the gateway.
type sleeper struct {
	*bench
	name   string
	number int
	url    string
}

// woken is what an answer says of the wait for it.
type woken struct {
	// cold tells whether the gateway says that the call has woken the function.
	cold bool
	// wait is how long the caller waited, as the gateway says.
	wait time.Duration
}

// hasAutoscaler tells whether KEDA and its http-add-on are on the cluster, and says so when they are not.
func (b *bench) hasAutoscaler(benchmark string) (bool, error) {
	for _, kind := range []schema.GroupKind{
		{Group: "http.keda.sh", Kind: "InterceptorRoute"}, {Group: "keda.sh", Kind: "ScaledObject"},
	} {
		_, err := b.client.RESTMapper().RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			b.say("Skipping %s: KEDA's http-add-on is not on this cluster; on the local one run make cluster-deploy KEDA=1",
				benchmark)
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("looking for KEDA: %w", err)
		}
	}
	return true, nil
}

// scaling returns the Function as one that scales to zero.
func scaling(fn *v1alpha1.Function, idleSeconds int32) *v1alpha1.Function {
	fn.Spec.Scaling = &v1alpha1.FunctionScaling{MinReplicas: ptr.To[int32](0), IdleSeconds: new(idleSeconds)}
	return fn
}

// deploySleeper deploys a Function that scales and waits until the autoscaler takes care of it.
func (b *bench) deploySleeper(ctx context.Context, fn *v1alpha1.Function, number int) (*sleeper, error) {
	b.say("Deploying %s", fn.Name)
	stored, err := b.deploy(ctx, fn)
	if err != nil {
		return nil, err
	}
	s := &sleeper{bench: b, name: fn.Name, number: number, url: stored.Status.URL}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		if err := b.client.Get(ctx, client.ObjectKeyFromObject(fn), stored); err != nil {
			return nil, fmt.Errorf("reading Function %s: %w", fn.Name, err)
		}
		active := meta.FindStatusCondition(stored.Status.Conditions, v1alpha1.ConditionScalingActive)
		if active != nil && active.Status == metav1.ConditionTrue {
			return s, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("the autoscaler did not take %s (%+v): %w", fn.Name, active, err)
		}
	}
}

// pods returns the pods that answer calls of the function, or that are on their way out.
func (s *sleeper) pods(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := s.client.List(ctx, pods, client.InNamespace(naming.DeployNamespace(benchNamespace)),
		client.MatchingLabels{v1alpha1.LabelFunction: s.name})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", s.name, err)
	}
	return pods.Items, nil
}

// toZero scales the function to zero, without the autoscaler's hesitation, and waits until nothing is left of its pods and
// of the memory of the last call, and a random time more.
func (s *sleeper) toZero(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := sleep(ctx, forgotten); err != nil {
		return err
	}
	quietly := false
	for {
		pods, err := s.pods(ctx)
		switch {
		case err != nil:
			return err
		case len(pods) == 0 && quietly:
			return nil
		case len(pods) == 0:
			// Interceptor and gateway have to learn it too. A function that is up again then was still wanted.
			quietly = true
			if err := sleep(ctx, eventsWait+rand.N(maxSpread)); err != nil {
				return err
			}
			continue
		}
		quietly = false
		if err := s.scaleToZero(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%s still has %d pods: %w", s.name, len(pods), err)
		}
	}
}

func (s *sleeper) scaleToZero(ctx context.Context) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: naming.DeployNamespace(benchNamespace)}}
	err := s.client.SubResource("scale").Update(ctx, d, client.WithSubResourceBody(&autoscalingv1.Scale{}))
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("scaling %s to zero: %w", s.name, err)
	}
	return nil
}

// call sends one call through the gateway, on a connection of its own, and checks the answer.
func (s *sleeper) call(ctx context.Context, c *http.Client) (woken, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return woken{}, err
	}
	req.Close = true
	resp, err := c.Do(req)
	if err != nil {
		return woken{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return woken{}, fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return woken{}, fmt.Errorf("the answer is %s: %.200q", resp.Status, body)
	}
	number, err := numberOf(body)
	if err == nil && number != s.number {
		err = fmt.Errorf("the answer is %d, but should be %d", number, s.number)
	}
	w := woken{cold: resp.Header.Get(coldStartHeader) == "true"}
	w.wait, _ = timing(resp.Header, waitTiming)
	return w, err
}

// check compares what the gateway says of a wait with what the caller saw.
func (w woken) check(took time.Duration) error {
	switch {
	case !w.cold:
		return errors.New("the gateway does not say that the call has woken the function")
	case w.wait <= 0 || w.wait > took:
		return fmt.Errorf("the gateway says that the caller waited for %s, who waited for %s", w.wait, took)
	}
	return nil
}

// timing returns the duration that Server-Timing gives to a name.
func timing(header http.Header, name string) (time.Duration, bool) {
	for metric := range strings.SplitSeq(strings.Join(header.Values(timingHeader), ","), ",") {
		parts := strings.Split(metric, ";")
		if strings.TrimSpace(parts[0]) != name {
			continue
		}
		for _, param := range parts[1:] {
			value, ok := strings.CutPrefix(strings.TrimSpace(param), "dur=")
			if !ok {
				continue
			}
			if ms, err := strconv.ParseFloat(value, 64); err == nil {
				return time.Duration(ms * float64(time.Millisecond)), true
			}
		}
	}
	return 0, false
}
