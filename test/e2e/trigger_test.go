//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// diary notes every call but GET, and tells a GET of them: one line for each, "trigger request-id event".
const diary = `import json

lines = []


def handle(event, context):
    headers = {k.lower(): v for k, v in context.request.headers.items()}
    if context.request.method == "GET":
        return "\n".join(lines)
    lines.append(f"{headers.get('x-sless-trigger')} {headers.get('ce-id')} {json.dumps(event)}")
    return "noted"
`

// tick is how long a story waits for a schedule of every minute.
const tick = 2 * time.Minute

func trigger(namespace, name, function string) *v1alpha1.Trigger {
	return &v1alpha1.Trigger{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.TriggerSpec{
			FunctionRef: v1alpha1.FunctionReference{Name: function}, Type: v1alpha1.TriggerTypeHTTP,
		},
	}
}

func everyMinute(namespace, name, function, event string) *v1alpha1.Trigger {
	t := trigger(namespace, name, function)
	t.Spec.Type = v1alpha1.TriggerTypeCron
	t.Spec.Cron = &v1alpha1.CronTrigger{Schedule: "* * * * *", TimeZone: "Europe/Berlin"}
	if event != "" {
		t.Spec.Cron.Event = &runtime.RawExtension{Raw: []byte(event)}
	}
	return t
}

func currentTrigger(ctx context.Context, t *v1alpha1.Trigger) *v1alpha1.Trigger {
	GinkgoHelper()
	now := &v1alpha1.Trigger{}
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(t), now)).To(Succeed())
	return now
}

// triggerIs waits until a condition of a Trigger is "Status/Reason" for the current spec.
func triggerIs(ctx context.Context, t *v1alpha1.Trigger, kind, want string) {
	GinkgoHelper()
	Eventually(func() string {
		now := currentTrigger(ctx, t)
		c := meta.FindStatusCondition(now.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != now.Generation {
			return "not looked at yet"
		}
		return string(c.Status) + "/" + c.Reason
	}).WithTimeout(tick).Should(Equal(want))
}

func enable(ctx context.Context, t *v1alpha1.Trigger, on bool) {
	GinkgoHelper()
	now := currentTrigger(ctx, t)
	base := now.DeepCopy()
	now.Spec.Enabled = &on
	Expect(k8s.Patch(ctx, now, client.MergeFrom(base))).To(Succeed())
}

func onHost(host string) callOption { return func(r *http.Request) { r.Host = host } }

// refusal is what the gateway answers by itself, as "status reason".
func refusal(a answer) string {
	body := struct{ Reason string }{}
	_ = json.Unmarshal([]byte(a.Body), &body) // anything else has no reason
	return http.StatusText(a.Status) + " " + body.Reason
}

// entries are the lines of a diary.
func entries(ctx context.Context, fn *v1alpha1.Function) []string {
	GinkgoHelper()
	return strings.FieldsFunc(get(ctx, fn).Body, func(r rune) bool { return r == '\n' })
}

// calledOnce waits until a Trigger has called a diary at a time of its schedule, and expects that it does so once.
func calledOnce(ctx context.Context, t *v1alpha1.Trigger, fn *v1alpha1.Function, at *metav1.Time) {
	GinkgoHelper()
	// Kubernetes names a run by the minute that it was due.
	id := fmt.Sprintf("%s %s-%d ", t.Name, naming.CronJob(t.Name), at.Unix()/60)
	calls := func() []string {
		return slices.DeleteFunc(entries(ctx, fn), func(line string) bool { return !strings.HasPrefix(line, id) })
	}
	Eventually(calls).WithTimeout(tick).ShouldNot(BeEmpty())
	Eventually(func() bool {
		last := currentTrigger(ctx, t).Status.LastScheduleTime
		return last != nil && !last.Before(at)
	}).Should(BeTrue())
	triggerIs(ctx, t, v1alpha1.ConditionLastRunSucceeded, "True/Succeeded")
	Consistently(calls, pause).Should(HaveLen(1))
}

// runObjects counts what is left of a Trigger in the deploy namespace.
func runObjects(ctx context.Context, t *v1alpha1.Trigger) int {
	GinkgoHelper()
	options := []client.ListOption{
		client.InNamespace(naming.DeployNamespace(t.Namespace)),
		client.MatchingLabels{v1alpha1.LabelOwnerUID: string(t.UID)},
	}
	n := 0
	for _, list := range []client.ObjectList{
		&batchv1.CronJobList{}, &batchv1.JobList{}, &corev1.PodList{}, &corev1.ConfigMapList{},
	} {
		Expect(k8s.List(ctx, list, options...)).To(Succeed())
		n += meta.LenList(list)
	}
	return n
}

func cronJobOf(ctx context.Context, t *v1alpha1.Trigger) *batchv1.CronJob {
	GinkgoHelper()
	cronJob := &batchv1.CronJob{}
	key := client.ObjectKey{Namespace: naming.DeployNamespace(t.Namespace), Name: naming.CronJob(t.Name)}
	Expect(k8s.Get(ctx, key, cronJob)).To(Succeed())
	return cronJob
}

var _ = Describe("A user's Trigger", SpecPriority(early), func() {
	It("calls every minute, exactly once; can be switched off and on; leaves nothing", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		fn := python(namespace, "diary", diary)
		broken := python(namespace, "broken", "def handle(event, context):\n    raise ValueError('out of ink')\n")
		t, failing := everyMinute(namespace, "tick", "diary", `{"n": 1}`), everyMinute(namespace, "fails", "broken", "")
		Expect(k8s.Create(ctx, t)).To(Succeed())
		triggerIs(ctx, t, v1alpha1.ConditionReady, "False/FunctionNotFound")
		create(ctx, fn)
		create(ctx, broken)
		Expect(k8s.Create(ctx, failing)).To(Succeed())
		triggerIs(ctx, t, v1alpha1.ConditionReady, "True/Ready")
		next := currentTrigger(ctx, t).Status.NextScheduleTime
		Expect(next).NotTo(BeNil())

		calledOnce(ctx, t, fn, next)
		Expect(entries(ctx, fn)[0]).To(MatchRegexp(`^tick cron-tick-\d+ \{"n": 1\}$`))
		Eventually(func() bool {
			status := currentTrigger(ctx, t).Status
			return status.NextScheduleTime != nil && status.NextScheduleTime.After(status.LastScheduleTime.Time) && status.NextScheduleTime.After(time.Now())
		}).Should(BeTrue())

		By("telling of a run that failed")
		triggerIs(ctx, failing, v1alpha1.ConditionLastRunSucceeded, "False/LastRunFailed")
		triggerIs(ctx, failing, v1alpha1.ConditionReady, "True/Ready")
		Expect(meta.FindStatusCondition(currentTrigger(ctx, failing).Status.Conditions,
			v1alpha1.ConditionLastRunSucceeded).Message).To(And(ContainSubstring("500"), ContainSubstring("out of ink")))

		By("switching it off: refused at once, nothing runs")
		image := current(ctx, fn).Status.Image
		enable(ctx, t, false)
		Eventually(func() string { return refusal(get(ctx, fn)) }).Should(Equal("Service Unavailable Disabled"))
		Expect(current(ctx, fn).Status.Phase).To(Equal(v1alpha1.PhaseDisabled))
		Eventually(func() int32 { return deploymentOf(ctx, fn).Status.Replicas }).Should(BeZero())
		Expect(ptr.Deref(cronJobOf(ctx, t).Spec.Suspend, false)).To(BeTrue())
		Expect(current(ctx, broken).Status.Phase).To(Equal(v1alpha1.PhaseReady), "another Function is not concerned")

		By("switching it on")
		enable(ctx, t, true)
		waitReady(ctx, fn)
		Eventually(func() int { return get(ctx, fn).Status }).Should(Equal(http.StatusOK))
		Expect(current(ctx, fn).Status.Image).To(Equal(image))

		By("deleting both")
		for _, each := range []*v1alpha1.Trigger{t, failing} {
			Expect(k8s.Delete(ctx, each)).To(Succeed())
			Eventually(gone(ctx, each.DeepCopy())).Should(BeTrue())
			Eventually(func() int { return runObjects(ctx, each) }).Should(BeZero())
		}
		Expect(get(ctx, fn).Status).To(Equal(http.StatusOK), "without Triggers the Function goes on")
	})

	It("limits methods, gives a host, and lets the host be switched off by itself", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		fn := python(namespace, "shop", "def handle(event, context):\n    return context.request.method + ' ' + context.request.raw_path\n")
		create(ctx, fn)
		plain, hosted := trigger(namespace, "plain", "shop"), trigger(namespace, "hosted", "shop")
		host := namespace + ".example.com"
		plain.Spec.HTTP = &v1alpha1.HTTPTrigger{Methods: []v1alpha1.HTTPMethod{"GET", "POST"}}
		hosted.Spec.HTTP = &v1alpha1.HTTPTrigger{Host: host, Methods: []v1alpha1.HTTPMethod{"GET", "PUT"}}
		Expect(k8s.Create(ctx, plain)).To(Succeed())
		triggerIs(ctx, plain, v1alpha1.ConditionReady, "True/Ready")
		Expect(currentTrigger(ctx, plain).Status.URL).To(Equal(current(ctx, fn).Status.URL))
		var refused answer
		Eventually(func() string {
			refused = call(ctx, fn, http.MethodPut, "/x", nil)
			return refusal(refused)
		}).Should(Equal("Method Not Allowed MethodNotAllowed"))
		Expect(refused.Header.Get("Allow")).To(Equal("GET, POST"))
		Expect(call(ctx, fn, http.MethodPost, "/x", nil).Body).To(Equal("POST /x"))

		Expect(k8s.Create(ctx, hosted)).To(Succeed())
		triggerIs(ctx, hosted, v1alpha1.ConditionReady, "True/Ready")
		Expect(currentTrigger(ctx, hosted).Status.URL).To(Equal("http://" + host))
		gateway := strings.TrimSuffix(current(ctx, fn).Status.URL, naming.PublicPath(namespace, "shop"))
		atHost := func(method, path string) answer {
			return callURL(ctx, gateway+path, method, onHost(host+":80"))
		}
		Eventually(func() string { return atHost(http.MethodGet, "/healthz").Body }).Should(Equal("GET /healthz"))
		Expect(atHost(http.MethodPut, "/a%2Fb").Body).To(Equal("PUT /a%2Fb"))
		Expect(refusal(atHost(http.MethodPost, "/"))).To(Equal("Method Not Allowed MethodNotAllowed"))
		Expect(call(ctx, fn, http.MethodPut, "", nil).Status).To(Equal(http.StatusOK), "the path takes what any of them takes")
		ingress := &networkingv1.Ingress{}
		key := client.ObjectKey{Namespace: "sless-system", Name: naming.HostRoute(namespace, "hosted")}
		Expect(k8s.Get(ctx, key, ingress)).To(Succeed())
		Expect(ingress.Spec.Rules[0].Host).To(Equal(host))
		Expect(ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name).To(Equal("sless-gateway"))

		By("claiming the host a second time")
		rival := trigger(namespace, "rival", "shop")
		rival.Spec.HTTP = &v1alpha1.HTTPTrigger{Host: host}
		Expect(k8s.Create(ctx, rival)).To(Succeed())
		triggerIs(ctx, rival, v1alpha1.ConditionReady, "False/HostConflict")

		By("switching the host off")
		enable(ctx, hosted, false)
		Eventually(func() string { return refusal(atHost(http.MethodGet, "/")) }).Should(Equal("Service Unavailable Disabled"))
		Expect(get(ctx, fn).Status).To(Equal(http.StatusOK))

		By("deleting it: the next one has the host")
		Expect(k8s.Delete(ctx, hosted)).To(Succeed())
		triggerIs(ctx, rival, v1alpha1.ConditionReady, "True/Ready")
		Eventually(func() int { return atHost(http.MethodPost, "/").Status }).Should(Equal(http.StatusOK))
		Eventually(gone(ctx, ingress)).Should(BeTrue())
		Expect(k8s.Delete(ctx, rival)).To(Succeed())
		Eventually(func() int { return atHost(http.MethodGet, "/").Status }).Should(Equal(http.StatusNotFound))
	})
})
