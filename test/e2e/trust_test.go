//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
)

var _ = Describe("The platform's servers", func() {
	BeforeEach(func() {
		if os.Getenv("SLESS_E2E_CLUSTER") == "current" {
			Skip("the registry and the object store of another cluster cannot be looked at from here")
		}
	})

	It("(registry) answers nobody without the login, which every pod has and no code of a function", func(ctx SpecContext) {
		platform := readOperator(ctx)
		registry := platform.Registry.Host
		for _, path := range []string{"/v2/", "/v2/_catalog", "/v2/sless/tags/list"} {
			Expect(callURL(ctx, "http://"+registry+path, http.MethodGet).Status).To(Equal(http.StatusUnauthorized), path)
		}
		host := startGitHost()
		host.Commit(map[string]string{
			"package.json": `{"dependencies":{"slugify":"1.6.6"}}`,
			"handler.js": strings.Join([]string{
				"const slugify = require('slugify');",
				"exports.handle = async (event) => {",
				"  const push = await fetch(event.url, { method: 'POST' });",
				"  return slugify('a push gets ' + push.status);",
				"};",
			}, "\n"),
		})
		namespace := newNamespace(ctx)
		pods := watchPods(ctx, namespace)
		fn := cloned(namespace, "careful", host.url)
		fn.Spec.Runtime, fn.Spec.Replicas = "nodejs20", new(int32)
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		Eventually(ready(ctx, fn)).WithTimeout(buildEnd).Should(Equal("False/ScaledToZero"))
		change(ctx, fn, func(f *v1alpha1.Function) { *f.Spec.Replicas = 1 })
		waitReady(ctx, fn)

		By("pushing from the function's pod, and from that of a run")
		push := fmt.Sprintf(`{"url":"http://%s/blobs/uploads/"}`,
			strings.Replace(naming.CodeRepository(registry, namespace, fn.Name), "/", "/v2/", 1))
		Expect(call(ctx, fn, http.MethodPost, "", []byte(push), contentType("application/json")).Body).To(Equal("a-push-gets-401"))
		fj := jobOf(fn, "once", push)
		Expect(k8s.Create(ctx, fj)).To(Succeed())
		Eventually(phase(ctx, fj)).Should(Equal("Succeeded 1"))
		Expect(string(currentJob(ctx, fj).Status.Result.Raw)).To(Equal(`"a-push-gets-401"`))

		By("calling it as its schedule will")
		t := everyMinute(namespace, "often", fn.Name, push)
		Expect(k8s.Create(ctx, t)).To(Succeed())
		fire(ctx, t)

		By("starting a pod of its image without the login, though the node has the image")
		Expect(pullWithout(ctx, fn)).To(ContainSubstring("401 Unauthorized"))

		kinds := map[string]bool{}
		for _, pod := range pods.seen() {
			kind := pod.Labels["app.kubernetes.io/component"]
			kinds[kind] = true
			Expect(pod.Spec.ImagePullSecrets).NotTo(BeEmpty(), "pull secrets of the pod of a "+kind)
			for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				Expect(c.Image).To(HavePrefix(registry+"/"), "image of the pod of a "+kind)
			}
		}
		Expect(slices.Collect(maps.Keys(kinds))).To(ConsistOf("git-fetch", "build", "preflight", "function", "run", "cron"))
	})

	It("(object store) is trusted by those who have its authority, and others are told what is missing", func(ctx SpecContext) {
		cfg := storeConfig(ctx)
		Expect(cfg.Insecure).To(BeFalse())
		key := objectstore.CodeKey("e2e-trust", "sha256:"+strings.Repeat("0", 64))
		_, err := connectStore(ctx).Stat(ctx, key)
		Expect(err).To(MatchError(objectstore.ErrNotFound))

		_, other := certificateFor(net.ParseIP(nodeAddress))
		Expect(os.WriteFile(cfg.CAFile, other, 0o600)).To(Succeed())
		store, err := objectstore.New(cfg)
		Expect(err).NotTo(HaveOccurred())
		_, err = store.Stat(ctx, key)
		Expect(objectstore.IsRefused(err)).To(BeTrue(), "%v", err)
		Expect(objectstore.Explain(err)).To(MatchError(And(
			HavePrefix("the object store's certificate is not trusted"), ContainSubstring("objectStore.caFile"))))
	})
})

// fire runs what the CronJob of a Trigger runs at each tick, without waiting for one.
func fire(ctx context.Context, t *v1alpha1.Trigger) {
	GinkgoHelper()
	namespace := naming.DeployNamespace(t.Namespace)
	list := &batchv1.CronJobList{}
	Eventually(func() int {
		Expect(k8s.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		return len(list.Items)
	}).Should(Equal(1))
	template := list.Items[0].Spec.JobTemplate
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "fire-", Namespace: namespace, Labels: template.Labels}, Spec: template.Spec,
	}
	Expect(k8s.Create(ctx, job)).To(Succeed())
	Eventually(func() int32 {
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
		return job.Status.Succeeded
	}).Should(Equal(int32(1)))
}

// pullWithout makes a pod of the function's image that has no login, and returns why its container does not start.
func pullWithout(ctx context.Context, fn *v1alpha1.Function) string {
	GinkgoHelper()
	spec := deploymentOf(ctx, fn).Spec.Template.Spec.DeepCopy()
	spec.ImagePullSecrets = nil
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "without-", Namespace: naming.DeployNamespace(fn.Namespace)}, Spec: *spec,
	}
	Expect(k8s.Create(ctx, pod)).To(Succeed())
	message := ""
	Eventually(func() string {
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Waiting != nil && status.State.Waiting.Reason == "ErrImagePull" {
				message = status.State.Waiting.Message
			}
		}
		return message
	}).ShouldNot(BeEmpty())
	return message
}

// podsSeen are the pods that sless made for the Functions of one namespace, also those that are gone already.
type podsSeen struct {
	mu   sync.Mutex
	pods map[string]corev1.Pod
}

// watchPods looks on until the story ends.
func watchPods(ctx context.Context, namespace string) *podsSeen {
	GinkgoHelper()
	watcher, err := client.NewWithWatch(restConfig(), client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	seen := &podsSeen{pods: map[string]corev1.Pod{}}
	for place, mine := range map[string]func(*corev1.Pod) bool{
		naming.DeployNamespace(namespace): func(*corev1.Pod) bool { return true },
		buildsNamespace: func(pod *corev1.Pod) bool {
			return strings.HasPrefix(pod.Annotations[v1alpha1.AnnotationOwner], namespace+"/")
		},
	} {
		w, err := watcher.Watch(ctx, &corev1.PodList{}, client.InNamespace(place),
			client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(w.Stop)
		go seen.collect(w, mine)
	}
	return seen
}

func (s *podsSeen) collect(w watch.Interface, mine func(*corev1.Pod) bool) {
	for event := range w.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && mine(pod) {
			s.mu.Lock()
			s.pods[pod.Name] = *pod
			s.mu.Unlock()
		}
	}
}

func (s *podsSeen) seen() []corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.pods))
}
