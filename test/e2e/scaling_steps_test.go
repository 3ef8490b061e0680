//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// Where KEDA and its HTTP add-on run, and the parts without which functions do not wake.
const (
	kedaNamespace   = "keda"
	kedaOperator    = "keda-operator"
	kedaScaler      = "keda-add-ons-http-external-scaler"
	kedaInterceptor = "keda-add-ons-http-interceptor"
)

// napper answers at once, or after the seconds that the query asks for.
const napper = `import time


def handle(event, context):
    time.sleep(float(event.get("nap", 0)) if isinstance(event, dict) else 0)
    return "awake"
`

// scaling is a Function that goes to zero as soon as a Function can.
func scaling(namespace, name, code string) *v1alpha1.Function {
	fn := python(namespace, name, code)
	fn.Spec.Scaling = &v1alpha1.FunctionScaling{
		MinReplicas: ptr.To[int32](0), MaxReplicas: ptr.To[int32](3), Concurrency: ptr.To[int32](2), IdleSeconds: ptr.To[int32](1),
	}
	return fn
}

// needsKEDA skips a story without KEDA, and keeps those that break it waiting until the story ends.
func needsKEDA(ctx context.Context) {
	GinkgoHelper()
	skipWithoutKEDA(ctx)
	lock("keda", together)
}

// breaksKEDA skips a story without KEDA, and waits until no other needs it whole.
func breaksKEDA(ctx context.Context) {
	GinkgoHelper()
	skipWithoutKEDA(ctx)
	lock("keda", alone)
}

func skipWithoutKEDA(ctx context.Context) {
	GinkgoHelper()
	if !hasKEDA(ctx) {
		Skip("KEDA is not installed; on the local cluster make cluster-up KEDA=1 does that")
	}
}

func hasKEDA(ctx context.Context) bool {
	GinkgoHelper()
	err := k8s.Get(ctx, client.ObjectKey{Namespace: kedaNamespace, Name: kedaOperator}, &appsv1.Deployment{})
	Expect(client.IgnoreNotFound(err)).To(Succeed())
	return err == nil
}

func scalingActive(ctx context.Context, fn *v1alpha1.Function) func() string {
	return func() string {
		c := condition(ctx, fn, v1alpha1.ConditionScalingActive)
		return string(c.Status) + "/" + c.Reason
	}
}

// asleep waits until no pod of the Function is left.
func asleep(ctx context.Context, fn *v1alpha1.Function) {
	GinkgoHelper()
	Eventually(scalingActive(ctx, fn)).Should(Equal("True/AtZero"))
	Eventually(func() int { return len(replicasOf(ctx, fn)) }).Should(BeZero())
}

func replicasOf(ctx context.Context, fn *v1alpha1.Function) []corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(k8s.List(ctx, pods, client.InNamespace(naming.DeployNamespace(fn.Namespace)), client.MatchingLabels{
		v1alpha1.LabelFunction: fn.Name, "app.kubernetes.io/component": "function",
	})).To(Succeed())
	return pods.Items
}

func wantedReplicas(ctx context.Context, fn *v1alpha1.Function) func() int32 {
	return func() int32 { return ptr.Deref(deploymentOf(ctx, fn).Spec.Replicas, 1) }
}

// crowd calls a Function over and over from several callers at once, until it is told to stop, and says what went wrong.
type crowd struct {
	calls, failures atomic.Int64
	first           atomic.Pointer[string]
	stop            context.CancelFunc
	done            sync.WaitGroup
}

func startCrowd(ctx context.Context, fn *v1alpha1.Function, callers int, query string) *crowd {
	GinkgoHelper()
	url := current(ctx, fn).Status.URL + query
	ctx, stop := context.WithCancel(ctx)
	c := &crowd{stop: stop}
	for range callers {
		c.done.Go(func() {
			for ctx.Err() == nil {
				c.call(url)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	DeferCleanup(stop)
	return c
}

// callAtOnce makes that many calls at the same moment, each once.
func callAtOnce(ctx context.Context, fn *v1alpha1.Function, callers int, query string) *crowd {
	GinkgoHelper()
	url := current(ctx, fn).Status.URL + query
	c := &crowd{stop: func() {}}
	for range callers {
		c.done.Go(func() { c.call(url) })
	}
	return c
}

// call makes one call, which goes on when the crowd is told to stop: a call that is given up proves nothing.
func (c *crowd) call(url string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if problem := problemOf(ctx, url); problem != "" {
		c.failures.Add(1)
		c.first.CompareAndSwap(nil, &problem)
	}
	c.calls.Add(1)
}

func problemOf(ctx context.Context, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err.Error()
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("%d %s", resp.StatusCode, body)
	}
	return ""
}

// end stops the crowd once there were so many calls, and expects that none has failed.
func (c *crowd) end(atLeast int) {
	GinkgoHelper()
	Eventually(c.calls.Load).Should(BeNumerically(">=", atLeast))
	c.stop()
	c.done.Wait()
	Expect(c.failures.Load()).To(BeZero(), "of %d calls, the first with: %s", c.calls.Load(), ptr.Deref(c.first.Load(), ""))
}

// busy waits until the crowd's calls are answered.
func (c *crowd) busy() {
	GinkgoHelper()
	seen := c.calls.Load()
	Eventually(c.calls.Load).Should(BeNumerically(">", seen+10))
}

// restart rolls a Deployment, as kubectl rollout restart does, and waits until that is over.
func restart(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	Expect(k8s.Get(ctx, key, d)).To(Succeed())
	base := d.DeepCopy()
	if d.Spec.Template.Annotations == nil {
		d.Spec.Template.Annotations = map[string]string{}
	}
	d.Spec.Template.Annotations["sless.io/restarted-by-a-story"] = time.Now().Format(time.RFC3339Nano)
	Expect(k8s.Patch(ctx, d, client.MergeFrom(base))).To(Succeed())
	rolledOut(ctx, key)
}

func rolledOut(ctx context.Context, key client.ObjectKey) {
	GinkgoHelper()
	Eventually(func() bool {
		now := &appsv1.Deployment{}
		Expect(k8s.Get(ctx, key, now)).To(Succeed())
		wanted := ptr.Deref(now.Spec.Replicas, 1)
		return now.Status.ObservedGeneration >= now.Generation && now.Status.UpdatedReplicas == wanted &&
			now.Status.AvailableReplicas == wanted && now.Status.Replicas == wanted
	}).Should(BeTrue())
}

// switchOff scales a part of KEDA to zero until mend is called or the story ends.
func switchOff(ctx context.Context, name string) (mend func()) {
	GinkgoHelper()
	key := client.ObjectKey{Namespace: kedaNamespace, Name: name}
	scaleTo := func(ctx context.Context, replicas int32) {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
		Expect(k8s.Patch(ctx, d, patch)).To(Succeed())
		rolledOut(ctx, key)
	}
	scaleTo(ctx, 0)
	var once sync.Once
	back := func(ctx context.Context) { once.Do(func() { scaleTo(ctx, 1) }) }
	DeferCleanup(back)
	return func() { back(ctx) }
}
