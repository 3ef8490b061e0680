//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
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

// kedaNamespace is where KEDA and its HTTP add-on run.
const kedaNamespace = "keda"

// napper answers at once, or after the seconds that the query asks for.
const napper = `import time


def handle(event, context):
    time.sleep(float(event.get("nap", 0)) if isinstance(event, dict) else 0)
    return "awake"
`

// scaling is a Function that goes to zero after a few seconds without calls.
func scaling(namespace, name, code string) *v1alpha1.Function {
	fn := python(namespace, name, code)
	fn.Spec.Scaling = &v1alpha1.FunctionScaling{
		MinReplicas: ptr.To[int32](0), MaxReplicas: ptr.To[int32](3), Concurrency: ptr.To[int32](2), IdleSeconds: ptr.To[int32](5),
	}
	return fn
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

// call makes one call, which goes on when the crowd is told to stop: a call that is given up proves nothing.
func (c *crowd) call(url string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c.calls.Add(1)
	problem := func() string {
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
	}()
	if problem != "" {
		c.failures.Add(1)
		c.first.CompareAndSwap(nil, &problem)
	}
}

// end stops the crowd and expects that no call has failed.
func (c *crowd) end() {
	GinkgoHelper()
	c.stop()
	c.done.Wait()
	Expect(c.failures.Load()).To(BeZero(), "of %d calls, the first with: %s", c.calls.Load(), ptr.Deref(c.first.Load(), ""))
	Expect(c.calls.Load()).To(BeNumerically(">", 10))
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

// moodAddress is where a function of a story asks how it feels.
const moodAddress = nodeAddress + ":18097"

// startMood answers with a word that the story can change.
func startMood() *atomic.Value {
	GinkgoHelper()
	mood := &atomic.Value{}
	mood.Store("good")
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", moodAddress)
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // It lives as long as one story.
		_, _ = fmt.Fprint(w, mood.Load())
	})}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	return mood
}

var _ = Describe("A function that scales", Ordered, Serial, func() {
	const namespace = "e2e-scaling"
	fn := scaling(namespace, "napper", napper)

	BeforeAll(func(ctx SpecContext) {
		err := k8s.Get(ctx, client.ObjectKey{Namespace: kedaNamespace, Name: "keda-operator"}, &appsv1.Deployment{})
		if client.IgnoreNotFound(err) == nil && err != nil {
			Skip("KEDA is not installed; on the local cluster make cluster-up KEDA=1 does that")
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { removeNamespace(ctx, namespace) })
		create(ctx, fn)
	})

	It("goes to zero, is ready there, and is woken by a call, which is told so", func(ctx SpecContext) {
		asleep(ctx, fn)
		Expect(ready(ctx, fn)()).To(Equal("True/Ready"))
		first := get(ctx, fn)
		Expect(first.Status).To(Equal(http.StatusOK), first.Body)
		Expect(first.Body).To(Equal("awake"))
		Expect(first.Header.Get("X-Sless-Cold-Start")).To(Equal("true"))
		Expect(strings.Join(first.Header.Values("Server-Timing"), ", ")).To(And(
			ContainSubstring("handler;dur="), ContainSubstring("wait;dur=")))
		second := get(ctx, fn)
		Expect(second.Header.Get("X-Sless-Cold-Start")).To(Equal("false"))
		Expect(ready(ctx, fn)()).To(Equal("True/Ready"))
	})

	It("loses none of 200 calls that come at once while it is at zero", func(ctx SpecContext) {
		asleep(ctx, fn)
		url := current(ctx, fn).Status.URL
		c := &crowd{stop: func() {}}
		for range 200 {
			c.done.Go(func() { c.call(url) })
		}
		c.end()
	})

	It("does not go to zero under a long call, nor under many short ones", func(ctx SpecContext) {
		asleep(ctx, fn)
		c := startCrowd(ctx, fn, 1, "?nap=15")
		Eventually(func() int64 { return c.calls.Load() }).Should(BeNumerically(">", 1), "the long call has ended well")
		c.stop()
		c.done.Wait()
		Expect(c.failures.Load()).To(BeZero(), ptr.Deref(c.first.Load(), ""))
		c = startCrowd(ctx, fn, 1, "")
		Consistently(func() int { return len(replicasOf(ctx, fn)) }, "15s", "1s").ShouldNot(BeZero())
		c.end()
	})

	It("grows under load and shrinks after it", func(ctx SpecContext) {
		c := startCrowd(ctx, fn, 8, "?nap=1")
		Eventually(func() int32 { return deploymentOf(ctx, fn).Status.ReadyReplicas }).Should(BeEquivalentTo(3))
		Eventually(scalingActive(ctx, fn)).Should(Equal("True/AtMaxReplicas"))
		c.end()
		asleep(ctx, fn)
	})

	It("loses no call while its code changes, and while interceptor, scaler, operator and manager restart", func(ctx SpecContext) {
		c := startCrowd(ctx, fn, 4, "")
		Eventually(c.calls.Load).Should(BeNumerically(">", 10))
		changeCode(ctx, fn, "handler.py", napper+"# again\n")
		waitReady(ctx, fn)
		for _, part := range [][2]string{
			{kedaNamespace, "keda-add-ons-http-interceptor"}, {kedaNamespace, "keda-add-ons-http-external-scaler"},
			{kedaNamespace, "keda-operator"}, {"sless-system", "sless-controller-manager"},
		} {
			By("restarting " + part[1])
			restart(ctx, part[0], part[1])
		}
		c.end()
	})

	It("tries new code while it is at zero, and keeps the old code when that cannot be loaded", func(ctx SpecContext) {
		asleep(ctx, fn)
		changeCode(ctx, fn, "handler.py", "import nothing_like_it\n"+napper)
		Eventually(ready(ctx, fn)).Should(Equal("False/HandlerLoadFailed"))
		Expect(condition(ctx, fn, v1alpha1.ConditionReady).Message).To(ContainSubstring("handler.py line 1"))
		Expect(get(ctx, fn).Body).To(Equal("awake"))
		changeCode(ctx, fn, "handler.py", napper)
		waitReady(ctx, fn)
	})

	It("is switched off and on by its trigger", func(ctx SpecContext) {
		t := trigger(namespace, "door", fn.Name)
		t.Spec.Enabled = new(false)
		Expect(k8s.Create(ctx, t)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal("False/Disabled"))
		refused := get(ctx, fn)
		Expect(refused.Status).To(Equal(http.StatusServiceUnavailable))
		Expect(refused.Body).To(ContainSubstring("Disabled"))
		Eventually(func() int { return len(replicasOf(ctx, fn)) }).Should(BeZero())
		Expect(k8s.Delete(ctx, t)).To(Succeed())
		waitReady(ctx, fn)
		answers(ctx, fn, "awake")
	})

	It("changes to fixed replicas and back without an outage", func(ctx SpecContext) {
		c := startCrowd(ctx, fn, 2, "")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Scaling, f.Spec.Replicas = nil, ptr.To[int32](2) })
		Eventually(scalingActive(ctx, fn)).Should(Equal("False/FixedReplicas"))
		Eventually(func() int32 { return deploymentOf(ctx, fn).Status.ReadyReplicas }).Should(BeEquivalentTo(2))
		change(ctx, fn, func(f *v1alpha1.Function) {
			f.Spec.Scaling, f.Spec.Replicas = scaling(namespace, "", "").Spec.Scaling, nil
		})
		Eventually(scalingActive(ctx, fn)).Should(HavePrefix("True/"))
		c.end()
		asleep(ctx, fn)
	})

	It("answers with the cause when it cannot wake, as its condition does", func(ctx SpecContext) {
		mood := startMood()
		moody := scaling(namespace, "moody", "import urllib.request\n\n"+
			"mood = urllib.request.urlopen('http://"+moodAddress+"').read().decode()\n"+
			"assert mood == 'good', mood\n\n\ndef handle(event, context):\n    return 'fine'\n")
		create(ctx, moody)
		asleep(ctx, moody)
		mood.Store("bad")
		refused := get(ctx, moody)
		Expect(refused.Status).To(BeNumerically(">=", 500), refused.Body)
		Expect(refused.Body).To(And(ContainSubstring("HandlerLoadFailed"), ContainSubstring("handler.py line 4")))
		Eventually(ready(ctx, moody)).Should(Equal("False/HandlerLoadFailed"))
		mood.Store("good")
		By("waiting until KEDA gives up: the next call wakes it")
		Eventually(func() string { return get(ctx, moody).Body }).WithTimeout(buildEnd).Should(Equal("fine"))
	})

	It("says within the time for a start that nobody wakes it, while KEDA's operator is down", func(ctx SpecContext) {
		asleep(ctx, fn)
		mend := switchOff(ctx, "keda-operator")
		answer := get(ctx, fn)
		Expect(answer.Status).To(Equal(http.StatusGatewayTimeout), answer.Body)
		Expect(answer.Body).To(ContainSubstring("StartTimeout"))
		mend()
		Eventually(func() string { return get(ctx, fn).Body }).Should(Equal("awake"))
	})

	It("is reached straight while the interceptor is down and replicas run", func(ctx SpecContext) {
		c := startCrowd(ctx, fn, 1, "")
		Eventually(c.calls.Load).Should(BeNumerically(">", 10))
		mend := switchOff(ctx, "keda-add-ons-http-interceptor")
		Expect(get(ctx, fn).Body).To(Equal("awake"))
		mend()
		c.end()
	})

	It("leaves nothing of KEDA's when it is deleted", func(ctx SpecContext) {
		Expect(k8s.Delete(ctx, fn)).To(Succeed())
		list := &metav1.PartialObjectMetadataList{}
		for _, kind := range []metav1.TypeMeta{
			{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObjectList"}, {APIVersion: "http.keda.sh/v1beta1", Kind: "InterceptorRouteList"},
			{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscalerList"}, {APIVersion: "apps/v1", Kind: "DeploymentList"},
		} {
			list.TypeMeta = kind
			Eventually(func() []string {
				Expect(k8s.List(ctx, list, client.InNamespace(naming.DeployNamespace(namespace)))).To(Succeed())
				names := []string{}
				for _, item := range list.Items {
					if strings.Contains(item.Name, fn.Name) {
						names = append(names, kind.Kind+" "+item.Name)
					}
				}
				return names
			}).Should(BeEmpty())
		}
	})
})
