// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	prometheustest "github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/internal/testutil"
)

// testCleaner makes passes over the suite's platform, by a clock of its own.
type testCleaner struct {
	*cleaner

	fake *clocktesting.FakePassiveClock
	// lists counts how often repositories were looked at.
	lists map[string]int
}

// countingImages counts the repositories that are listed.
type countingImages struct {
	Images

	lists map[string]int
}

func (i countingImages) Tags(ctx context.Context, repository string, limit int) ([]string, error) {
	i.lists[repository]++
	return i.Images.Tags(ctx, repository, limit)
}

func newTestCleaner(ctx context.Context) *testCleaner {
	GinkgoHelper()
	metrics, err := newCleanupMetrics(prometheus.NewRegistry())
	Expect(err).NotTo(HaveOccurred())
	fake := clocktesting.NewFakePassiveClock(time.Now())
	config := *platformS.config
	c := newCleaner(&FunctionReconciler{
		Client: k8sClient, APIReader: k8sClient, Config: &config, Store: platformS.store, Images: platformS.images,
		Clock: fake, memory: platformS.memory,
	}, metrics)
	t := &testCleaner{cleaner: c, fake: fake, lists: map[string]int{}}
	c.images = countingImages{platformS.images, t.lists}
	t.after(ctx, 0) // The very first pass only marks the bucket.
	return t
}

// after makes a pass when some time has gone by.
func (t *testCleaner) after(ctx context.Context, d time.Duration) {
	GinkgoHelper()
	t.fake.SetTime(t.fake.Now().Add(d))
	Expect(t.pass(ctx)).To(Succeed())
}

// afterGrace makes the passes in which what is not needed is seen, removed, and seen to be gone.
func (t *testCleaner) afterGrace(ctx context.Context) {
	GinkgoHelper()
	t.after(ctx, time.Hour)
	t.after(ctx, 25*time.Hour)
	t.after(ctx, time.Hour)
}

func objectsOf(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	keys := []string{}
	for object, err := range platformS.store.List(ctx, objectstore.CodePrefix(namespace)) {
		Expect(err).NotTo(HaveOccurred())
		keys = append(keys, object.Key)
	}
	return keys
}

func tagsOf(ctx context.Context, repository string) []string {
	GinkgoHelper()
	tags, err := platformS.images.Tags(ctx, repository, 100)
	Expect(err).NotTo(HaveOccurred())
	return tags
}

func codeTags(ctx context.Context, namespace, name string) []string {
	GinkgoHelper()
	return tagsOf(ctx, naming.CodeRepository(platformS.registryHost, namespace, name))
}

func exists(ctx context.Context, ref string) bool {
	GinkgoHelper()
	_, ok, err := platformS.images.Exists(ctx, ref)
	Expect(err).NotTo(HaveOccurred())
	return ok
}

// recordOf is what the cleaning keeps in mind of a namespace, or nil.
func recordOf(ctx context.Context, namespace string) map[string]string {
	GinkgoHelper()
	cm := &corev1.ConfigMap{ObjectMeta: resources.CleanupRecordMeta(platformS.config.Builds.Namespace, namespace)}
	err := k8sClient.Get(ctx, client.ObjectKeyFromObject(cm), cm)
	if apierrors.IsNotFound(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return cm.Data
}

// built creates a Function and waits until its image is recorded.
func built(ctx context.Context, fn *v1alpha1.Function) *v1alpha1.Function {
	GinkgoHelper()
	Expect(k8sClient.Create(ctx, fn)).To(Succeed())
	Eventually(func() string { return get(ctx, fn).Status.Image }).ShouldNot(BeEmpty())
	return get(ctx, fn)
}

func deleteFunction(ctx context.Context, fn *v1alpha1.Function) {
	GinkgoHelper()
	Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
	Eventually(func() bool {
		return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(fn), &v1alpha1.Function{}))
	}).Should(BeTrue())
}

func simple(name, namespace string) *v1alpha1.Function {
	return testutil.MakeFunction(name, namespace).File("handler.py", pythonHandler).Obj()
}

var _ = Describe("The clean-up", func() {
	It("keeps what a Function may go back to, and all that others use", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		fn, twin := built(ctx, simple("first", namespace)), built(ctx, simple("twin", namespace))
		Expect(objectsOf(ctx, namespace)).To(HaveLen(1), "both have the same code")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.py"] += "# changed\n" })
		Eventually(func() int { return len(get(ctx, fn).Status.History) }).Should(Equal(2))
		Expect(get(ctx, fn).Status.History[1].Base).To(ContainSubstring("@sha256:"))

		tidy := newTestCleaner(ctx)
		tidy.afterGrace(ctx)
		Expect(objectsOf(ctx, namespace)).To(HaveLen(2))
		Expect(codeTags(ctx, namespace, "first")).To(HaveLen(2))
		Expect(recordOf(ctx, namespace)).To(BeNil())

		By("deleting one of the two, which share code")
		deleteFunction(ctx, fn)
		Expect(recordOf(ctx, namespace)).To(HaveKey("function.first"))
		tidy.after(ctx, time.Hour)
		tidy.after(ctx, 23*time.Hour)
		Expect(objectsOf(ctx, namespace)).To(HaveLen(2), "within the grace")
		Expect(codeTags(ctx, namespace, "first")).To(HaveLen(2))
		tidy.after(ctx, 2*time.Hour)
		Expect(objectsOf(ctx, namespace)).To(ConsistOf(objectstore.CodeKey(namespace, twin.Status.SourceDigest)))
		Expect(codeTags(ctx, namespace, "first")).To(BeEmpty())
		Expect(codeTags(ctx, namespace, "twin")).To(HaveLen(1))
		Expect(exists(ctx, twin.Status.Image)).To(BeTrue())
		Expect(prometheustest.ToFloat64(tidy.metrics.removed.WithLabelValues(cleanupImages))).To(BeNumerically(">=", 2))
		tidy.after(ctx, time.Hour)
		Expect(recordOf(ctx, namespace)).To(BeNil())

		By("creating it again, with what was remembered as existing")
		again := built(ctx, simple("first", namespace))
		Expect(again.Status.Image).To(Equal(fn.Status.Image))
		Expect(exists(ctx, again.Status.Image)).To(BeTrue())
	})

	It("leaves nothing of a namespace without Functions, and forgets it", func(ctx SpecContext) {
		fn := testutil.MakeFunction("node", newNamespace(ctx)).Runtime("nodejs20").File("handler.js", "exports.handle = () => 1").
			File("package.json", `{"dependencies":{"slugify":"1.0.0"}}`).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		job := &batchv1.Job{}
		Eventually(func() error {
			jobs := &batchv1.JobList{}
			if err := k8sClient.List(ctx, jobs, client.InNamespace("sless-builds"),
				client.MatchingLabels{v1alpha1.LabelOwnerUID: string(fn.UID)}); err != nil || len(jobs.Items) == 0 {
				return apierrors.NewNotFound(batchv1.Resource("jobs"), "")
			}
			*job = jobs.Items[0]
			return nil
		}).Should(Succeed())

		By("keeping the build context while the build is there")
		tidy := newTestCleaner(ctx)
		tidy.afterGrace(ctx)
		Expect(objectsOf(ctx, fn.Namespace)).To(HaveLen(2), "the code and the build context")

		By("ending the build: the context is not needed any more, the dependency image is")
		target := naming.DependencyRepository(platformS.registryHost, fn.Namespace) + ":" + strings.TrimPrefix(job.Name, "build-")
		platformS.pushImage(target)
		change(ctx, fn, func(f *v1alpha1.Function) {
			metav1.SetMetaDataAnnotation(&f.ObjectMeta, v1alpha1.AnnotationReconcileAt, "now")
		})
		Eventually(func() string { return get(ctx, fn).Status.Image }).ShouldNot(BeEmpty())
		Expect(get(ctx, fn).Status.History[0].Base).To(HavePrefix(naming.DependencyRepository(platformS.registryHost, fn.Namespace) + "@"))
		tidy.afterGrace(ctx)
		Expect(objectsOf(ctx, fn.Namespace)).To(HaveLen(1))
		Expect(exists(ctx, target)).To(BeTrue())

		By("deleting the Function")
		deleteFunction(ctx, fn)
		tidy.afterGrace(ctx)
		Expect(objectsOf(ctx, fn.Namespace)).To(BeEmpty())
		Expect(codeTags(ctx, fn.Namespace, "node")).To(BeEmpty())
		Expect(exists(ctx, target)).To(BeFalse())
		Expect(recordOf(ctx, fn.Namespace)).To(BeNil())
	})

	It("tells namespaces apart whose Functions share a repository", func(ctx SpecContext) {
		outer := newNamespace(ctx)
		inner := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: outer + "-b"}}
		Expect(k8sClient.Create(ctx, inner)).To(Succeed())
		gone, stays := built(ctx, simple("b-c", outer)), built(ctx, simple("c", inner.Name))
		Expect(codeTags(ctx, outer, "b-c")).To(HaveLen(2))
		tidy := newTestCleaner(ctx)
		deleteFunction(ctx, gone)
		tidy.afterGrace(ctx)
		Expect(codeTags(ctx, outer, "b-c")).To(HaveLen(1))
		Expect(exists(ctx, stays.Status.Image)).To(BeTrue())
		Expect(exists(ctx, gone.Status.Image)).To(BeFalse())
		Expect(recordOf(ctx, outer)).To(BeNil())
	})

	It("asks the registry nothing while nothing changes, but once in a time of grace", func(ctx SpecContext) {
		fn := built(ctx, simple("quiet", newNamespace(ctx)))
		tidy := newTestCleaner(ctx)
		tidy.after(ctx, 0)
		tidy.after(ctx, time.Hour)
		lists := func() []int {
			return []int{
				tidy.lists[naming.CodeRepository(platformS.registryHost, fn.Namespace, "quiet")],
				tidy.lists[naming.DependencyRepository(platformS.registryHost, fn.Namespace)],
			}
		}
		Expect(lists()).To(Equal([]int{1, 1}))
		for range 5 {
			tidy.after(ctx, time.Hour)
		}
		Expect(lists()).To(Equal([]int{1, 1}))
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.py"] += "# changed\n" })
		Eventually(func() int { return len(get(ctx, fn).Status.History) }).Should(Equal(2))
		tidy.after(ctx, time.Hour)
		Expect(lists()).To(Equal([]int{2, 1}))
		tidy.after(ctx, 24*time.Hour)
		Expect(lists()).To(Equal([]int{3, 2}))
	})

	It("notices a Function whose finalizer somebody took away", func(ctx SpecContext) {
		fn := built(ctx, simple("torn", newNamespace(ctx)))
		tidy := newTestCleaner(ctx)
		tidy.after(ctx, 0)
		// At once, so that the controller does not come in between.
		change(ctx, fn, func(f *v1alpha1.Function) { f.Finalizers = []string{"test.sless.io/keep"} })
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
		change(ctx, fn, func(f *v1alpha1.Function) { f.Finalizers = nil })
		Eventually(func() bool {
			return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(fn), fn))
		}).Should(BeTrue())
		tidy.afterGrace(ctx)
		Expect(objectsOf(ctx, fn.Namespace)).To(BeEmpty())
		Expect(exists(ctx, fn.Status.Image)).To(BeTrue(), "the Deployment that was left behind runs it")
		Expect(k8sClient.Delete(ctx, deploymentOf(ctx, fn))).To(Succeed())
		tidy.after(ctx, time.Hour) // sees at once that nothing runs it any more
		tidy.after(ctx, 25*time.Hour)
		Expect(codeTags(ctx, fn.Namespace, "torn")).To(BeEmpty())
	})

	It("does not touch what is being used again, and what it does not know", func(ctx SpecContext) {
		fn := built(ctx, simple("claimed", newNamespace(ctx)))
		tidy := newTestCleaner(ctx)
		foreign := naming.CodeRepository(platformS.registryHost, fn.Namespace, "claimed") + ":v1"
		platformS.pushImage(foreign)
		other := objectstore.CodePrefix(fn.Namespace) + "notes.txt"
		Expect(platformS.store.Put(ctx, other, strings.NewReader("x"), 1, nil)).To(Succeed())
		deleteFunction(ctx, fn)
		tidy.after(ctx, time.Hour)
		key := objectClaim(objectstore.CodeKey(fn.Namespace, fn.Status.SourceDigest))
		Expect(tidy.claims.claim(ctx, tidy.fake.Now().Add(20*time.Hour), key, imageClaim(fn.Status.Image))).To(Succeed())
		tidy.after(ctx, 25*time.Hour)
		Expect(objectsOf(ctx, fn.Namespace)).To(HaveLen(2))
		Expect(exists(ctx, fn.Status.Image)).To(BeTrue())
		tidy.after(ctx, 25*time.Hour)
		tidy.after(ctx, time.Hour)
		Expect(objectsOf(ctx, fn.Namespace)).To(ConsistOf(other))
		Expect(codeTags(ctx, fn.Namespace, "claimed")).To(ConsistOf("v1"))
		Expect(recordOf(ctx, fn.Namespace)).To(BeNil())
	})

	It("only says what it would do in a dry run", func(ctx SpecContext) {
		fn := built(ctx, simple("dry", newNamespace(ctx)))
		tidy := newTestCleaner(ctx)
		deleteFunction(ctx, fn)
		tidy.config.Cleanup.DryRun = true
		tidy.afterGrace(ctx)
		Expect(objectsOf(ctx, fn.Namespace)).To(HaveLen(1))
		Expect(exists(ctx, fn.Status.Image)).To(BeTrue())
		tidy.config.Cleanup.DryRun = false
		tidy.after(ctx, time.Hour)
		Expect(objectsOf(ctx, fn.Namespace)).To(BeEmpty())
		Expect(exists(ctx, fn.Status.Image)).To(BeFalse())
	})
})

var _ = Describe("The clean-up on a platform that does not do as it should", Serial, func() {
	It("goes on when the registry and the object store answer again", func(ctx SpecContext) {
		fn := built(ctx, simple("later", newNamespace(ctx)))
		tidy := newTestCleaner(ctx)
		deleteFunction(ctx, fn)
		tidy.after(ctx, time.Hour)
		platformS.registryOutage.set(refusing)
		DeferCleanup(platformS.registryOutage.set, none)
		tidy.fake.SetTime(tidy.fake.Now().Add(25 * time.Hour))
		Expect(tidy.pass(ctx)).NotTo(Succeed())
		Expect(objectsOf(ctx, fn.Namespace)).To(BeEmpty(), "the store is cleaned up nevertheless")
		Expect(recordOf(ctx, fn.Namespace)).To(HaveKey("function.later"))
		platformS.storeOutage.set(refusing)
		DeferCleanup(platformS.storeOutage.set, none)
		Expect(tidy.pass(ctx)).NotTo(Succeed())
		platformS.storeOutage.set(none)
		platformS.registryOutage.set(none)
		tidy.after(ctx, time.Hour)
		Expect(exists(ctx, fn.Status.Image)).To(BeFalse())
	})

	It("leaves a registry alone for a while that refuses to delete", func(ctx SpecContext) {
		fn := built(ctx, simple("refused", newNamespace(ctx)))
		tidy := newTestCleaner(ctx)
		deleteFunction(ctx, fn)
		platformS.deletionRefused.Store(true)
		DeferCleanup(platformS.deletionRefused.Store, false)
		tidy.afterGrace(ctx)
		Expect(objectsOf(ctx, fn.Namespace)).To(BeEmpty())
		Expect(exists(ctx, fn.Status.Image)).To(BeTrue())
		blocked := func() float64 { return prometheustest.ToFloat64(tidy.metrics.blocked.WithLabelValues(cleanupImages)) }
		Expect(blocked()).To(Equal(1.0))
		Expect(prometheustest.ToFloat64(tidy.metrics.failures.WithLabelValues(cleanupImages))).To(BeZero())
		platformS.deletionRefused.Store(false)
		tidy.after(ctx, time.Hour)
		Expect(exists(ctx, fn.Status.Image)).To(BeTrue(), "it was not asked again yet")
		tidy.after(ctx, 6*time.Hour)
		Expect(exists(ctx, fn.Status.Image)).To(BeFalse())
		Expect(blocked()).To(BeZero())
	})

	It("removes nothing from the bucket of another installation", func(ctx SpecContext) {
		fn := built(ctx, simple("guest", newNamespace(ctx)))
		tidy := newTestCleaner(ctx)
		deleteFunction(ctx, fn)
		Expect(platformS.store.Put(ctx, ownerObject, strings.NewReader("another"), 7, nil)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(platformS.store.Delete(ctx, ownerObject)).To(Succeed()) })
		tidy.afterGrace(ctx)
		Expect(objectsOf(ctx, fn.Namespace)).To(HaveLen(1))
		Expect(exists(ctx, fn.Status.Image)).To(BeTrue())
		Expect(prometheustest.ToFloat64(tidy.metrics.blocked.WithLabelValues(cleanupObjects))).To(Equal(1.0))
	})
})
