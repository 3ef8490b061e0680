// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/internal/testutil"
	"github.com/naeel/sless/internal/validator"
	"github.com/naeel/sless/runtimes"
)

// reviewSwitch is a gate for each namespace that has one. For all others there is no review.
type reviewSwitch struct {
	mu    sync.Mutex
	gates map[string]*validator.Gate
}

func (r *reviewSwitch) Enabled() bool { return true }

func (r *reviewSwitch) Review(ctx context.Context, s validator.Submission) (validator.Verdict, error) {
	r.mu.Lock()
	gate := r.gates[s.Namespace]
	r.mu.Unlock()
	return gate.Review(ctx, s)
}

func (r *reviewSwitch) set(namespace string, gate *validator.Gate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gates[namespace] = gate
}

// reviewNamespace is a namespace whose code a scripted model judges.
func reviewNamespace(ctx context.Context, reply testutil.ModelReply, tweaks ...func(*validator.Config)) (string, *testutil.Model, func()) {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	model := testutil.NewModel(reply)
	server := httptest.NewServer(model)
	DeferCleanup(server.Close)
	DeferCleanup(model.Stop)
	cfg := validator.Config{
		Enabled: true, Endpoint: server.URL + "/v1", Model: "scripted", Timeout: eventually, Prompt: validator.DefaultPrompt,
	}
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	// start is what a start of the manager does: a gate that remembers nothing.
	start := func() {
		gate, err := validator.New(cfg, validator.Options{Store: platformS.store, Log: logr.Discard()})
		Expect(err).NotTo(HaveOccurred())
		platformS.review.set(namespace, gate)
	}
	start()
	return namespace, model, start
}

func messageOf(ctx context.Context, fn *v1alpha1.Function, kind string) string {
	GinkgoHelper()
	c := meta.FindStatusCondition(get(ctx, fn).Status.Conditions, kind)
	Expect(c).NotTo(BeNil())
	return c.Message
}

func reviewedIs(ctx context.Context, fn *v1alpha1.Function, want string) {
	GinkgoHelper()
	Eventually(conditionOf(ctx, fn, v1alpha1.ConditionCodeReviewed)).Should(Equal(want))
}

const minerHandler = "import os\ndef handle(event, context):\n    os.system('xmrig')\n"

var _ = Describe("The review of code", func() {
	It("refuses code of a ConfigMap, and the old version stays until the code changes", func(ctx SpecContext) {
		namespace, model, _ := reviewNamespace(ctx, testutil.ModelRejectsWhat("xmrig", "handler.py starts a miner"))
		code := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "code", Namespace: namespace}, Data: map[string]string{"handler.py": pythonHandler},
		}
		Expect(k8sClient.Create(ctx, code)).To(Succeed())
		fn := testutil.MakeFunction("cart", namespace).Obj()
		fn.Spec.Source.ConfigMap = &v1alpha1.ConfigMapReference{Name: "code"}
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		reviewedIs(ctx, fn, "True/ReviewPassed")
		before := rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")

		code.Data["handler.py"] = minerHandler
		Expect(k8sClient.Update(ctx, code)).To(Succeed())
		readyIs(ctx, fn, "False/CodeRejected")
		reviewedIs(ctx, fn, "False/CodeRejected")
		current := get(ctx, fn)
		Expect(messageOf(ctx, fn, v1alpha1.ConditionReady)).To(Equal(
			"the review refused the code " + current.Status.SourceDigest + ": handler.py starts a miner"))
		Expect(meta.IsStatusConditionTrue(current.Status.Conditions, v1alpha1.ConditionStalled)).To(BeTrue())
		Expect(meta.IsStatusConditionTrue(current.Status.Conditions, v1alpha1.ConditionAvailable)).To(BeTrue())
		Expect(meta.IsStatusConditionTrue(current.Status.Conditions, v1alpha1.ConditionSourceReady)).To(BeTrue())
		Expect(deploymentOf(ctx, fn).Spec).To(Equal(before.Spec))

		By("telling of it in an event, without the code")
		refusals := func() []string {
			list := &eventsv1.EventList{}
			Expect(k8sClient.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			var notes []string
			for _, event := range list.Items {
				if event.Reason == v1alpha1.ReasonCodeRejected && event.Type == corev1.EventTypeWarning {
					notes = append(notes, event.Note)
				}
			}
			return notes
		}
		Eventually(refusals).Should(ConsistOf(And(ContainSubstring(current.Status.SourceDigest), Not(ContainSubstring("xmrig")))))

		By("refusing other hostile code, with an event of its own")
		code.Data["handler.py"] = minerHandler + "# again\n"
		Expect(k8sClient.Update(ctx, code)).To(Succeed())
		Eventually(func() string { return get(ctx, fn).Status.SourceDigest }).ShouldNot(Equal(current.Status.SourceDigest))
		Eventually(refusals).Should(HaveLen(2))

		By("asking nothing more about it")
		calls := len(model.Calls())
		lookAgain(ctx, FunctionController, get(ctx, fn))
		Consistently(func() int { return len(model.Calls()) }).WithTimeout(time.Second).Should(Equal(calls))

		code.Data["handler.py"] = pythonHandler
		Expect(k8sClient.Update(ctx, code)).To(Succeed())
		readyIs(ctx, fn, "True/Ready")
		Expect(model.Calls()).To(HaveLen(calls))
	})

	It("asks once about the same code, and nothing after a restart, which writes nothing", func(ctx SpecContext) {
		namespace, model, start := reviewNamespace(ctx, testutil.ModelAccepts())
		functions := make([]*v1alpha1.Function, 5)
		for i := range functions {
			functions[i] = testutil.MakeFunction("fn-"+string(rune('a'+i)), namespace).File("handler.py", pythonHandler).Obj()
			Expect(k8sClient.Create(ctx, functions[i])).To(Succeed())
		}
		for _, fn := range functions {
			reviewedIs(ctx, fn, "True/ReviewPassed")
			rollOut(ctx, fn)
			readyIs(ctx, fn, "True/Ready")
		}
		Expect(model.Calls()).To(HaveLen(1))
		digest := get(ctx, functions[0]).Status.SourceDigest
		Eventually(func() error {
			_, err := platformS.store.Stat(ctx, objectstore.ReviewKey(namespace, digest))
			return err
		}).Should(Succeed())

		start()
		asked := get(ctx, functions[0])
		lookAgain(ctx, FunctionController, asked)
		Consistently(func() string { return get(ctx, asked).ResourceVersion }).WithTimeout(time.Second).Should(Equal(asked.ResourceVersion))
		Expect(model.Calls()).To(HaveLen(1))
	})

	It("judges uploads that came in past the gateway, by what is stored", func(ctx SpecContext) {
		namespace, model, _ := reviewNamespace(ctx, testutil.ModelRejectsWhat("xmrig", "handler.py starts a miner"))
		packed, err := archive.FromFiles(map[string]string{
			"handler.py": minerHandler, "blob.bin": "not sent", "node_modules/x/i.js": "not sent",
		}, archive.Options{Prefix: archive.CodePrefix})
		Expect(err).NotTo(HaveOccurred())
		Expect(platformS.store.Put(ctx, objectstore.CodeKey(namespace, packed.Digest), bytes.NewReader(packed.Data),
			int64(len(packed.Data)), nil)).To(Succeed())
		fn := testutil.MakeFunction("patched", namespace).Obj()
		fn.Spec.Source.Upload = &v1alpha1.UploadSource{
			SHA256: strings.TrimPrefix(packed.Digest, "sha256:"), SizeBytes: int64(len(packed.Data)),
		}
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/CodeRejected")
		Expect(model.CallsAbout("not sent")).To(BeZero())
	})

	It("lets code pass when the model gives no answer, and asks again later", func(ctx SpecContext) {
		namespace, model, _ := reviewNamespace(ctx, nil, func(c *validator.Config) { c.Timeout = 3 * time.Second })
		model.Reply(model.ModelHangs())
		fn := testutil.MakeFunction("patient", namespace).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		reviewedIs(ctx, fn, "Unknown/Reviewing")
		reviewedIs(ctx, fn, "True/ReviewUnavailable")
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		Expect(messageOf(ctx, fn, v1alpha1.ConditionCodeReviewed)).To(ContainSubstring("was not reviewed"))
	})

	It("holds code back when the policy says so, and lets it go when the model is back", func(ctx SpecContext) {
		namespace, model, start := reviewNamespace(ctx, testutil.ModelFails(503), func(c *validator.Config) {
			c.FailurePolicy = validator.Fail
		})
		fn := testutil.MakeFunction("held", namespace).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/ReviewUnavailable")
		Expect(meta.IsStatusConditionTrue(get(ctx, fn).Status.Conditions, v1alpha1.ConditionReconciling)).To(BeTrue())
		model.Reply(testutil.ModelAccepts())
		start() // The failure stands for a moment in the memory of the first gate.
		reviewedIs(ctx, fn, "True/ReviewPassed")
	})

	It("says of large code and of ready images that they are not reviewed", func(ctx SpecContext) {
		namespace, model, _ := reviewNamespace(ctx, testutil.ModelRejects("everything"))
		fn := testutil.MakeFunction("large", namespace).File("handler.py", pythonHandler).
			File("data.txt", strings.Repeat("x", validator.MaxReviewBytes)).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		reviewedIs(ctx, fn, "True/ReviewSkipped")
		Expect(messageOf(ctx, fn, v1alpha1.ConditionCodeReviewed)).To(ContainSubstring("at most 102400 are reviewed"))

		ready := testutil.MakeFunction("ready", namespace).Obj()
		ref := platformS.registryHost + "/tools/ready:v1"
		platformS.pushImage(ref)
		ready.Spec.Source.Image = &v1alpha1.ImageSource{Ref: ref}
		Expect(k8sClient.Create(ctx, ready)).To(Succeed())
		reviewedIs(ctx, ready, "True/ReviewSkipped")
		Expect(messageOf(ctx, ready, v1alpha1.ConditionCodeReviewed)).To(ContainSubstring("ready image"))
		Expect(model.Calls()).To(BeEmpty())
	})

	It("knows the digest of inline code before it is stored", func() {
		catalogue, err := runtimes.Load()
		Expect(err).NotTo(HaveOccurred())
		rt, _ := catalogue.Lookup("nodejs20")
		files := map[string]string{"handler.js": "exports.handle = () => 1", ".npmrc": "//x/:_authToken=secret", "package.json": "{}"}
		packed, err := archive.FromFiles(withoutSecretFiles(files, rt), archive.Options{Prefix: archive.CodePrefix})
		Expect(err).NotTo(HaveOccurred())
		Expect(validator.InlineDigest(files, rt)).To(Equal(packed.Digest))
	})
})
