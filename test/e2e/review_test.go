//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

const (
	// miner is what the scripted model refuses. It is never run.
	miner = "import os\ndef handle(event, context):\n    os.system('xmrig --donate-level 1')\n    return 'mined'\n"
	// reviewSecret and reviewMark are how the review is switched on, and off again at the end.
	reviewSecret = "sless-code-review"
	reviewMark   = "e2e.sless.io/review"
)

var _ = Describe("An operator who has code reviewed", Serial, Ordered, func() {
	var (
		model    *testutil.Model
		settings map[string]string

		tenant, namespace, ns string

		// paid and its version are of a story that goes on after a restart.
		paid   *v1alpha1.Function
		before string
	)
	const paidCode = "def handle(event, context):\n    return 'paid once'\n"
	judge := testutil.ModelRejectsWhat("xmrig", "handler.py starts a cryptocurrency miner")

	BeforeAll(func(ctx SpecContext) {
		needsThisMachine("the scripted model")
		var endpoint string
		model, endpoint = startModel(ctx, judge)
		tenant, namespace = newTenant(ctx)
		ns = newNamespace(ctx)
		settings = map[string]string{
			"LLM_ENDPOINT": endpoint, "LLM_TIMEOUT": "3s", "LLM_PROMPT_FILE": reviewPrompt(ctx, "Refuse what mines."),
		}
		DeferCleanup(func(ctx SpecContext) { reviewOff(ctx) })
		reviewOn(ctx, settings)
	})

	It("has a hostile upload refused before anything changes, and told of", func(ctx SpecContext) {
		fn := uploaded(namespace, "zipped")
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		good := issuer.upload(ctx, namespace, fn.Name, tenant, zipOf(map[string]string{"handler.py": v1}))
		Expect(good.status).To(Equal(http.StatusOK), good.body)
		Expect(good.body).NotTo(ContainSubstring("warnings"))
		waitReady(ctx, fn)
		Expect(condition(ctx, fn, v1alpha1.ConditionCodeReviewed).Reason).To(Equal(v1alpha1.ReasonReviewPassed))
		before := current(ctx, fn)

		for range 2 {
			bad := issuer.upload(ctx, namespace, fn.Name, tenant, zipOf(map[string]string{"handler.py": miner}))
			Expect(bad.status).To(Equal(http.StatusBadRequest), bad.body)
			Expect(bad.body).To(Equal(`{"error":"code validation failed: handler.py starts a cryptocurrency miner"}` + "\n"))
		}
		Expect(model.CallsAbout("xmrig")).To(Equal(1))
		Expect(model.Calls()[0].System).To(HavePrefix("Refuse what mines."))
		Expect(current(ctx, fn).Spec).To(Equal(before.Spec))
		Expect(get(ctx, fn).Body).To(Equal("one"))
		Eventually(refusals(ctx, namespace)).Should(ContainElement(And(
			ContainSubstring("the uploaded code sha256:"), ContainSubstring("cryptocurrency miner"), Not(ContainSubstring("xmrig")))))
	})

	It("has hostile code refused at kubectl apply, and told of although nothing was stored", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		hostile := func() *v1alpha1.Function { return python(ns, "inline", miner+"# inline\n") }
		Expect(k8s.Create(ctx, hostile(), client.DryRunAll)).To(Succeed(), "a dry run asks the model nothing")
		for range 2 {
			Expect(k8s.Create(ctx, hostile())).To(MatchError(ContainSubstring("code validation failed: handler.py starts a cryptocurrency miner")))
		}
		Expect(k8s.Create(ctx, hostile(), client.DryRunAll)).NotTo(Succeed(), "it is known by now")
		Expect(model.CallsAbout("# inline")).To(Equal(1))
		told := And(ContainSubstring("the inline code sha256:"), ContainSubstring("cryptocurrency miner"), Not(ContainSubstring("xmrig")))
		Eventually(refusals(ctx, ns)).Should(ConsistOf(told))
		events := &corev1.EventList{}
		// As kubectl events --for function/inline.
		Expect(k8s.List(ctx, events, client.InNamespace(ns), client.MatchingFields{
			"involvedObject.apiVersion": "sless.io/v1alpha1", "involvedObject.kind": "Function", "involvedObject.name": "inline",
		})).To(Succeed())
		Expect(events.Items).To(HaveLen(1))
	})

	It("has hostile code of a ConfigMap refused, and the old version goes on answering", func(ctx SpecContext) {
		code, fn := fromConfigMap(ctx, ns, "mapped", v1)
		waitReady(ctx, fn)
		setCode(ctx, code, miner)
		Eventually(ready(ctx, fn)).Should(Equal("False/CodeRejected"))
		reviewed := condition(ctx, fn, v1alpha1.ConditionCodeReviewed)
		Expect(reviewed.Status).To(Equal(metav1.ConditionFalse))
		Expect(reviewed.Message).To(And(ContainSubstring(current(ctx, fn).Status.SourceDigest), ContainSubstring("cryptocurrency miner")))
		Expect(condition(ctx, fn, v1alpha1.ConditionAvailable).Status).To(Equal(metav1.ConditionTrue))
		Expect(get(ctx, fn).Body).To(Equal("one"))
		Eventually(refusals(ctx, ns)).Should(HaveLen(1))

		setCode(ctx, code, strings.ReplaceAll(v1, "one", "two"))
		waitReady(ctx, fn)
		answers(ctx, fn, "two")
	})

	It("pays once for the same code", func(ctx SpecContext) {
		functions := make([]*v1alpha1.Function, 4)
		for i := range functions {
			functions[i] = python(ns, fmt.Sprintf("same-%d", i), paidCode)
			Expect(k8s.Create(ctx, functions[i])).To(Succeed())
		}
		for _, fn := range functions {
			waitReady(ctx, fn)
			Expect(condition(ctx, fn, v1alpha1.ConditionCodeReviewed).Reason).To(Equal(v1alpha1.ReasonReviewPassed))
		}
		Expect(model.CallsAbout("paid once")).To(Equal(1))
		paid = functions[0]
		before = current(ctx, paid).ResourceVersion
	})

	It("lets code go on when the model hangs, breaks or lies", func(ctx SpecContext) {
		DeferCleanup(func() { model.Reply(judge) })
		replies := map[string]testutil.ModelReply{
			"hangs": model.ModelHangs(), "fails": testutil.ModelFails(http.StatusInternalServerError), "breaks": testutil.ModelBreaks(),
			"lies": testutil.ModelSays("Sure! This code is perfectly safe: yes."),
		}
		model.Reply(func(w http.ResponseWriter, r *http.Request, call testutil.ModelCall) {
			for name, reply := range replies {
				if strings.Contains(call.User, "return '"+name+"'") {
					reply(w, r, call)
				}
			}
		})
		functions := map[string]*v1alpha1.Function{}
		for name := range replies {
			functions[name] = python(ns, name, strings.ReplaceAll(v1, "one", name))
			Expect(k8s.Create(ctx, functions[name])).To(Succeed())
		}
		for name, fn := range functions {
			waitReady(ctx, fn)
			Expect(get(ctx, fn).Body).To(Equal(name))
			reviewed := condition(ctx, fn, v1alpha1.ConditionCodeReviewed)
			Expect(reviewed.Reason).To(Equal(v1alpha1.ReasonReviewUnavailable), name)
			Expect(reviewed.Status).To(Equal(metav1.ConditionTrue), name)
		}

		By("warning who uploads")
		model.Reply(model.ModelHangs())
		fn := uploaded(namespace, "hasty")
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		answer := issuer.upload(ctx, namespace, fn.Name, tenant, zipOf(map[string]string{"handler.py": v1 + "# hasty\n"}))
		Expect(answer.status).To(Equal(http.StatusOK), answer.body)
		Expect(answer.body).To(ContainSubstring("the code was not reviewed: the reviewer did"))
		waitReady(ctx, fn)
	})

	It("can have code held back until the model is there again, and exempt a namespace", func(ctx SpecContext) {
		DeferCleanup(func() { model.Reply(judge) })
		exempt := newNamespace(ctx)
		settings["LLM_FAILURE_POLICY"], settings["LLM_SKIP_NAMESPACES"] = "Fail", exempt
		reviewOn(ctx, settings)
		model.Reply(testutil.ModelFails(http.StatusServiceUnavailable))
		fn := uploaded(namespace, "strict")
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		answer := issuer.upload(ctx, namespace, fn.Name, tenant, zipOf(map[string]string{"handler.py": v1 + "# strict\n"}))
		Expect(answer.status).To(Equal(http.StatusServiceUnavailable), answer.body)
		Expect(answer.body).To(ContainSubstring("the code cannot be reviewed now"))
		Expect(current(ctx, fn).Spec.Source.Upload.SHA256).To(BeEmpty())

		_, mapped := fromConfigMap(ctx, ns, "held", strings.ReplaceAll(v1, "one", "held"))
		Eventually(ready(ctx, mapped)).Should(Equal("False/ReviewUnavailable"))
		Consistently(ready(ctx, mapped), pause).Should(Equal("False/ReviewUnavailable"))
		model.Reply(judge)
		Eventually(ready(ctx, mapped)).WithTimeout(buildEnd).Should(Equal("True/Ready"))
		answers(ctx, mapped, "held")

		spared := python(exempt, "spared", v1+"# xmrig\n")
		create(ctx, spared)
		Expect(condition(ctx, spared, v1alpha1.ConditionCodeReviewed).Reason).To(Equal(v1alpha1.ReasonReviewSkipped))
	})

	It("does not pay again after a restart", func(ctx SpecContext) {
		create(ctx, python(ns, "same-late", paidCode))
		Expect(model.CallsAbout("paid once")).To(Equal(1))
		Expect(current(ctx, paid).ResourceVersion).To(Equal(before))
	})
})

// startModel serves a scripted model where pods reach it.
func startModel(ctx context.Context, reply testutil.ModelReply) (model *testutil.Model, endpoint string) {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", nodeAddress+":0")
	Expect(err).NotTo(HaveOccurred())
	model = testutil.NewModel(reply)
	server := &http.Server{Handler: model} //nolint:gosec // It lives as long as the stories.
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(func() {
		model.Stop()
		Expect(server.Close()).To(Succeed())
	})
	return model, "http://" + listener.Addr().String() + "/v1"
}

// reviewOn switches the review on with the settings, the way docs/code-review.md tells.
func reviewOn(ctx context.Context, settings map[string]string) {
	GinkgoHelper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: reviewSecret, Namespace: "sless-system"},
		StringData: map[string]string{"LLM_ENABLED": "true", "LLM_API_KEY": "sk-e2e"},
	}
	maps.Copy(secret.StringData, settings)
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, secret.DeepCopy()))).To(Succeed())
	Expect(k8s.Create(ctx, secret)).To(Succeed())
	markPrograms(ctx, strconv.FormatInt(time.Now().UnixNano(), 10))
}

// reviewPrompt stores a prompt the way docs/code-review.md tells, and returns where the programs find it.
func reviewPrompt(ctx context.Context, text string) string {
	GinkgoHelper()
	prompt := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: reviewSecret, Namespace: "sless-system"}, Data: map[string]string{"prompt.txt": text},
	}
	Expect(k8s.Create(ctx, prompt)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, prompt))).To(Succeed()) })
	return "/etc/sless-code-review/prompt.txt"
}

// reviewOff leaves the programs as they were.
func reviewOff(ctx context.Context) {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: reviewSecret, Namespace: "sless-system"}}
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, secret))).To(Succeed())
	markPrograms(ctx, "")
}

// markPrograms sets an annotation on the pods of manager and gateway, or takes it away, and waits for the new pods.
func markPrograms(ctx context.Context, mark string) {
	GinkgoHelper()
	for _, name := range []string{"sless-controller-manager", "sless-gateway"} {
		d := &appsv1.Deployment{}
		key := client.ObjectKey{Namespace: "sless-system", Name: name}
		Expect(k8s.Get(ctx, key, d)).To(Succeed())
		base := d.DeepCopy()
		metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, reviewMark, mark)
		if mark == "" {
			delete(d.Spec.Template.Annotations, reviewMark)
		}
		Expect(k8s.Patch(ctx, d, client.MergeFrom(base))).To(Succeed())
	}
	for _, name := range []string{"sless-controller-manager", "sless-gateway"} {
		Eventually(func() bool {
			d := &appsv1.Deployment{}
			Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "sless-system", Name: name}, d)).To(Succeed())
			s := d.Status
			return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == *d.Spec.Replicas && s.Replicas == s.UpdatedReplicas &&
				s.AvailableReplicas == s.UpdatedReplicas
		}).Should(BeTrue(), name+" must roll out")
	}
	waitManagers(ctx, 1)
}

// fromConfigMap makes a Function whose code is a ConfigMap.
func fromConfigMap(ctx context.Context, namespace, name, code string) (*corev1.ConfigMap, *v1alpha1.Function) {
	GinkgoHelper()
	source := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: map[string]string{"handler.py": code},
	}
	Expect(k8s.Create(ctx, source)).To(Succeed())
	fn := function(namespace, name, "python3.11", nil)
	fn.Spec.Source = v1alpha1.FunctionSource{ConfigMap: &v1alpha1.ConfigMapReference{Name: name}}
	Expect(k8s.Create(ctx, fn)).To(Succeed())
	return source, fn
}

func setCode(ctx context.Context, source *corev1.ConfigMap, code string) {
	GinkgoHelper()
	base := source.DeepCopy()
	source.Data["handler.py"] = code
	Expect(k8s.Patch(ctx, source, client.MergeFrom(base))).To(Succeed())
}

// refusals returns the notes of the events about refused code.
func refusals(ctx context.Context, namespace string) func() []string {
	return func() []string {
		list := &eventsv1.EventList{}
		Expect(k8s.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		var notes []string
		for _, event := range list.Items {
			if event.Reason == v1alpha1.ReasonCodeRejected {
				notes = append(notes, event.Note)
			}
		}
		return notes
	}
}
