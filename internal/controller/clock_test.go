// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

// passes is how often the named controllers, or all, have looked at anything.
func passes(controllers ...string) float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	n := 0.0
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			isOfThem := func(label *dto.LabelPair) bool {
				return label.GetName() == "controller" && slices.Contains(controllers, label.GetValue())
			}
			if len(controllers) == 0 || slices.ContainsFunc(m.GetLabel(), isOfThem) {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// lookedAfter does something, and returns when the controller has made a pass since.
func lookedAfter(controller string, act func()) {
	GinkgoHelper()
	before := passes(controller)
	act()
	Eventually(func() float64 { return passes(controller) }).Should(BeNumerically(">", before))
}

// lookAgain makes the controller look at obj once more, and returns when it has. obj is as the asking left it: what the
// controller writes has another resourceVersion.
func lookAgain(ctx context.Context, controller string, obj client.Object) {
	GinkgoHelper()
	lookedAfter(controller, func() { poke(ctx, obj) })
}

// aboutNow matches a time of the API server's clock that is not much older than this one. The wrong clocks are further off.
func aboutNow() OmegaMatcher { return BeTemporally("~", time.Now(), 2*time.Minute) }

func poke(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	base := obj.DeepCopyObject().(client.Object)
	annotations := map[string]string{v1alpha1.AnnotationReconcileAt: time.Now().Format(time.RFC3339Nano)}
	for name, value := range obj.GetAnnotations() {
		if _, isNew := annotations[name]; !isNew {
			annotations[name] = value
		}
	}
	obj.SetAnnotations(annotations)
	Expect(k8sClient.Patch(ctx, obj, client.MergeFrom(base))).To(Succeed())
}

var _ = DescribeTable("A manager whose machine has the wrong time", func(ctx SpecContext, off time.Duration) {
	DeferCleanup(func() { platformS.machine.set(clockSkew) })
	platformS.machine.set(off)
	fn := readyFunction(ctx, newNamespace(ctx))

	By("telling when a schedule fires")
	t := testutil.MakeTrigger("tick", fn.Namespace, fn.Name).Cron("* * * * *", "").Obj()
	Expect(k8sClient.Create(ctx, t)).To(Succeed())
	triggerIs(ctx, t, "True/Ready")
	fired := time.Now().Truncate(time.Minute)
	job := cronJobOf(ctx, t)
	setStatus(ctx, job, func() { job.Status.LastScheduleTime = new(metav1.NewTime(fired)) })
	Eventually(func() *metav1.Time { return getTrigger(ctx, t).Status.LastScheduleTime }).ShouldNot(BeNil())
	next := getTrigger(ctx, t).Status.NextScheduleTime.Time
	Expect(next).To(Or(BeTemporally("==", fired.Add(time.Minute)), BeTemporally("==", fired.Add(2*time.Minute))))
	Expect(triggerCondition(getTrigger(ctx, t), v1alpha1.ConditionReady).LastTransitionTime.Time).To(aboutNow())

	By("letting count what comes after a change, and nothing before")
	changeTrigger(ctx, t, enable(false))
	Eventually(suspended(ctx, t)).Should(Equal("yes"))
	changeTrigger(ctx, t, enable(true))
	Eventually(suspended(ctx, t)).Should(Equal("no"))
	since, err := time.Parse(time.RFC3339, cronJobOf(ctx, t).Annotations[v1alpha1.AnnotationScheduleSince])
	Expect(err).NotTo(HaveOccurred())
	Expect(since).To(aboutNow())
	deleteTrigger(ctx, t)
	rollOut(ctx, fn)
	readyIs(ctx, fn, "True/Ready")

	By("waiting for the pod of a run that is cancelled")
	cancelled := testutil.MakeFunctionJob("cancelled", fn.Namespace, fn.Name).Run(1).Obj()
	Expect(k8sClient.Create(ctx, cancelled)).To(Succeed())
	pod := runPod(ctx, theJob(ctx, cancelled))
	Expect(k8sClient.Delete(ctx, cancelled)).To(Succeed())
	gone := func() bool {
		return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(cancelled), cancelled))
	}
	Consistently(gone, "1s").Should(BeFalse())
	Expect(k8sClient.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	Eventually(gone).Should(BeTrue())

	By("keeping a run that has ended as long as asked, also when the next manager's machine is wrong the other way")
	kept := testutil.MakeFunctionJob("kept", fn.Namespace, fn.Name).Run(1).TTL(300).Obj()
	Expect(k8sClient.Create(ctx, kept)).To(Succeed())
	end(ctx, runPod(ctx, theJob(ctx, kept)), corev1.PodSucceeded, "1")
	jobIs(ctx, kept, "Succeeded 1 Succeeded")
	platformS.machine.set(-off)
	status := currentJob(ctx, kept).Status
	Expect(status.StartTime.Time).To(aboutNow())
	Expect(status.CompletionTime.Time).To(aboutNow())
	// The first answer tells the time, as it does when a manager starts.
	Eventually(func() time.Duration {
		poke(ctx, get(ctx, fn))
		return time.Since(platformS.clock.Now()).Abs()
	}).Should(BeNumerically("<", time.Minute))
	poke(ctx, currentJob(ctx, kept))
	before := passes()
	Consistently(jobState(ctx, kept), "1s").Should(Equal("Succeeded 1 Succeeded"))
	Expect(passes()-before).To(BeNumerically("<", 50), "nothing is looked at again and again")
},
	Entry("five minutes ahead", 5*time.Minute),
	Entry("five minutes behind", -5*time.Minute),
)
