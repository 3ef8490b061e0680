// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/internal/testutil"
)

const pythonHandler = "def handle(event, context):\n    return 'ok'\n"

// conditionOf reads a condition of a Function as "Status/Reason".
func conditionOf(ctx context.Context, fn *v1alpha1.Function, kind string) func() string {
	return func() string {
		current := &v1alpha1.Function{}
		if err := k8sClient.Get(ctx, client.ObjectKeyFromObject(fn), current); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(current.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != current.Generation {
			return "not yet"
		}
		return string(c.Status) + "/" + c.Reason
	}
}

func readyIs(ctx context.Context, fn *v1alpha1.Function, want string) {
	GinkgoHelper()
	Eventually(conditionOf(ctx, fn, v1alpha1.ConditionReady)).Should(Equal(want))
}

func get(ctx context.Context, fn *v1alpha1.Function) *v1alpha1.Function {
	GinkgoHelper()
	current := &v1alpha1.Function{}
	Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(fn), current)).To(Succeed())
	return current
}

// change applies a change to the current Function, as a user's second apply does.
func change(ctx context.Context, fn *v1alpha1.Function, mutate func(*v1alpha1.Function)) {
	GinkgoHelper()
	current := get(ctx, fn)
	base := current.DeepCopy()
	mutate(current)
	Expect(k8sClient.Patch(ctx, current, client.MergeFrom(base))).To(Succeed())
}

func deploymentOf(ctx context.Context, fn *v1alpha1.Function) *appsv1.Deployment {
	GinkgoHelper()
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: naming.DeployNamespace(fn.Namespace), Name: fn.Name}
	Eventually(func() error { return k8sClient.Get(ctx, key, d) }).Should(Succeed())
	return d
}

// rollOut plays the part of the Deployment controller and the kubelet, which envtest has not.
func rollOut(ctx context.Context, fn *v1alpha1.Function) *appsv1.Deployment {
	GinkgoHelper()
	d := deploymentOf(ctx, fn)
	setStatus(ctx, d, func() {
		n := ptr.Deref(d.Spec.Replicas, 1)
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		}
	})
	return d
}

// setStatus writes what change makes of obj's status, and begins again when a controller has written obj meanwhile.
func setStatus(ctx context.Context, obj client.Object, change func()) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change()
		return k8sClient.Status().Update(ctx, obj)
	})).To(Succeed())
}

// crash makes a pod of the Deployment's current version that ended with the message.
func crash(ctx context.Context, d *appsv1.Deployment, message string) {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: d.Name + "-", Namespace: d.Namespace,
			Labels: d.Spec.Template.Labels, Annotations: d.Spec.Template.Annotations,
		},
		Spec: d.Spec.Template.Spec,
	}
	Expect(k8sClient.Create(ctx, pod)).To(Succeed())
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:  "function",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message},
		},
	}}
	Expect(k8sClient.Status().Update(ctx, pod)).To(Succeed())
}

var _ = Describe("A Function with inline source", func() {
	It("gets a namespace, a policy, a Service and a Deployment, and is ready when its pods are", func(ctx SpecContext) {
		fn := testutil.MakeFunction("hello", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "Unknown/RollingOut")
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionAvailable)).Should(Equal("False/RollingOut"))

		d := rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		current := get(ctx, fn)
		Expect(current.Status.Phase).To(Equal(v1alpha1.PhaseReady))
		Expect(current.Status.URL).To(Equal("http://functions.test/fn/" + fn.Namespace + "/hello"))
		Expect(current.Status.Image).To(Equal(d.Spec.Template.Spec.Containers[0].Image))
		Expect(current.Status.Image).To(MatchRegexp(`@sha256:[0-9a-f]{64}$`))
		Expect(current.Status.History).To(HaveLen(1))
		Expect(current.Status.Replicas).To(BeEquivalentTo(1))
		for _, kind := range []string{"Ready", "Available", "Built", "SourceReady", "CodeReviewed"} {
			Expect(meta.IsStatusConditionTrue(current.Status.Conditions, kind)).To(BeTrue(), kind)
		}
		Expect(meta.IsStatusConditionFalse(current.Status.Conditions, "Reconciling")).To(BeTrue())
		Expect(meta.IsStatusConditionFalse(current.Status.Conditions, "Stalled")).To(BeTrue())

		ns := &corev1.Namespace{}
		Expect(k8sClient.Get(ctx, client.ObjectKey{Name: naming.DeployNamespace(fn.Namespace)}, ns)).To(Succeed())
		Expect(ns.Labels).To(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "restricted"))
		Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "sless-default"},
			&networkingv1.NetworkPolicy{})).To(Succeed())
		Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "hello"}, &corev1.Service{})).To(Succeed())
	})

	It("writes nothing when it is looked at again", func(ctx SpecContext) {
		fn := testutil.MakeFunction("still", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		d := rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		before, deploymentBefore := get(ctx, fn), deploymentOf(ctx, fn)
		asked := before.DeepCopy()
		lookAgain(ctx, FunctionController, asked)
		Consistently(func() string { return get(ctx, fn).ResourceVersion }, "1s").Should(Equal(asked.ResourceVersion))
		Expect(get(ctx, fn).Status).To(Equal(before.Status))
		Expect(deploymentOf(ctx, fn).ResourceVersion).To(Equal(deploymentBefore.ResourceVersion))
		Expect(deploymentBefore.Generation).To(Equal(d.Generation))
	})

	It("rolls once for a change of code, env or resources, and not at all for replicas", func(ctx SpecContext) {
		fn := testutil.MakeFunction("roll", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		revision := func() string { return deploymentOf(ctx, fn).Spec.Template.Labels[v1alpha1.LabelRevision] }
		seen := map[string]bool{revision(): true}
		for i, mutate := range []func(*v1alpha1.Function){
			func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.py"] += "# changed\n" },
			func(f *v1alpha1.Function) { f.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "1"}} },
			func(f *v1alpha1.Function) { f.Spec.TimeoutSeconds = 5 },
		} {
			change(ctx, fn, mutate)
			Eventually(revision).ShouldNot(BeKeyOf(seen), fmt.Sprintf("change %d", i))
			generation := deploymentOf(ctx, fn).Generation
			rollOut(ctx, fn)
			readyIs(ctx, fn, "True/Ready")
			Expect(deploymentOf(ctx, fn).Generation).To(Equal(generation))
			seen[revision()] = true
		}
		last := revision()
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Replicas = ptr.To[int32](3) })
		Eventually(func() int32 { return *deploymentOf(ctx, fn).Spec.Replicas }).Should(BeEquivalentTo(3))
		Expect(revision()).To(Equal(last))
	})

	It("keeps the old version available when the new one does not load, and says why", func(ctx SpecContext) {
		fn := testutil.MakeFunction("broken", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		old := rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.py"] = "boom\n" })
		Eventually(func() int64 { return deploymentOf(ctx, fn).Generation }).Should(BeNumerically(">", old.Generation))
		crash(ctx, deploymentOf(ctx, fn), "HandlerLoadFailed: handler.py line 1: NameError: name 'boom' is not defined")
		readyIs(ctx, fn, "False/HandlerLoadFailed")
		current := get(ctx, fn)
		Expect(meta.FindStatusCondition(current.Status.Conditions, "Ready").Message).To(ContainSubstring("handler.py line 1"))
		Expect(meta.IsStatusConditionTrue(current.Status.Conditions, "Available")).To(BeTrue())
		Expect(meta.IsStatusConditionTrue(current.Status.Conditions, "Stalled")).To(BeTrue())
		Expect(current.Status.Phase).To(Equal(v1alpha1.PhaseFailed))
	})
})

var _ = Describe("A Function from a ConfigMap", func() {
	It("waits for it, and is built again whenever it changes", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		fn := testutil.MakeFunction("mapped", namespace).Obj()
		fn.Spec.Source.ConfigMap = &v1alpha1.ConfigMapReference{Name: "code"}
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/SourceNotFound")
		code := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "code", Namespace: namespace},
			Data: map[string]string{"other.py": pythonHandler}}
		Expect(k8sClient.Create(ctx, code)).To(Succeed())
		readyIs(ctx, fn, "False/EntrypointNotFound")
		code.Data = map[string]string{"handler.py": pythonHandler}
		Expect(k8sClient.Update(ctx, code)).To(Succeed())
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		digest := get(ctx, fn).Status.SourceDigest
		code.Data["handler.py"] += "# changed"
		Expect(k8sClient.Update(ctx, code)).To(Succeed())
		Eventually(func() string { return get(ctx, fn).Status.SourceDigest }).ShouldNot(Equal(digest))
	})
})

var _ = Describe("A Function whose code is uploaded", func() {
	It("waits for the upload, runs what was stored, and asks for it again when it is gone", func(ctx SpecContext) {
		fn := testutil.MakeFunction("uploaded", newNamespace(ctx)).Obj()
		fn.Spec.Source.Upload = &v1alpha1.UploadSource{}
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "Unknown/WaitingForUpload")

		By("naming code that is not there")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Upload.SHA256 = strings.Repeat("0", 64) })
		readyIs(ctx, fn, "False/SourceNotFound")

		upload := func(files map[string]string) {
			packed, err := archive.FromFiles(files, archive.Options{Prefix: archive.CodePrefix})
			Expect(err).NotTo(HaveOccurred())
			key := objectstore.CodeKey(fn.Namespace, packed.Digest)
			Expect(platformS.store.Put(ctx, key, bytes.NewReader(packed.Data), int64(len(packed.Data)), nil)).To(Succeed())
			change(ctx, fn, func(f *v1alpha1.Function) {
				f.Spec.Source.Upload.SHA256 = strings.TrimPrefix(packed.Digest, "sha256:")
			})
		}
		By("uploading code without the entrypoint")
		upload(map[string]string{"other.py": pythonHandler})
		readyIs(ctx, fn, "False/EntrypointNotFound")

		By("uploading the right code")
		upload(map[string]string{"handler.py": pythonHandler, "data/table.csv": "1,2"})
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")

		By("finding that the stored code is not what its name says")
		bad := strings.Repeat("1", 64)
		Expect(platformS.store.Put(ctx, objectstore.CodeKey(fn.Namespace, bad), strings.NewReader("x"), 1, nil)).To(Succeed())
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Upload.SHA256 = bad })
		readyIs(ctx, fn, "False/SourceInvalid")
		Expect(conditionOf(ctx, fn, v1alpha1.ConditionAvailable)()).To(Equal("True/Ready"))
	})
})

var _ = Describe("A Function with a ready image", func() {
	It("runs the digest of its tag, and waits while there is no such image", func(ctx SpecContext) {
		fn := testutil.MakeFunction("given", newNamespace(ctx)).Runtime("").Obj()
		ref := platformS.registryHost + "/team/given:v1"
		fn.Spec.Source.Image = &v1alpha1.ImageSource{Ref: ref}
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/SourceNotFound")
		Expect(conditionOf(ctx, fn, v1alpha1.ConditionStalled)()).To(Equal("True/SourceNotFound"))
		platformS.pushImage(ref)
		change(ctx, fn, func(f *v1alpha1.Function) {
			metav1.SetMetaDataAnnotation(&f.ObjectMeta, v1alpha1.AnnotationReconcileAt, "now")
		})
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		current := get(ctx, fn)
		Expect(current.Status.Image).To(MatchRegexp(`/team/given@sha256:[0-9a-f]{64}$`))
		Expect(current.Status.SourceDigest).To(BeEmpty())
		Expect(conditionOf(ctx, fn, v1alpha1.ConditionBuilt)()).To(Equal("True/ImageGiven"))
	})

	It("may use what sless built for its own namespace, and nothing of another's", func(ctx SpecContext) {
		source := testutil.MakeFunction("source", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, source)).To(Succeed())
		rollOut(ctx, source)
		readyIs(ctx, source, "True/Ready")
		ref := get(ctx, source).Status.Image
		for namespace, want := range map[string]string{
			source.Namespace: "Unknown/RollingOut", newNamespace(ctx): "False/SourceNotFound",
		} {
			fn := testutil.MakeFunction("user", namespace).Obj()
			fn.Spec.Source.Image = &v1alpha1.ImageSource{Ref: ref}
			Expect(k8sClient.Create(ctx, fn)).To(Succeed())
			readyIs(ctx, fn, want)
		}
	})
})

var _ = Describe("A Job that is another one by now", func() {
	It("is left as it is, which is no fault", func(ctx SpecContext) {
		r := &FunctionReconciler{Client: k8sClient}
		container := corev1.Container{Name: "c", Image: "i"}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{GenerateName: "changed-", Namespace: "sless-builds"}}
		job.Spec.Suspend = new(true)
		job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{container}}
		Expect(k8sClient.Create(ctx, job)).To(Succeed())
		suspended := func() bool {
			now := &batchv1.Job{}
			Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), now)).To(Succeed())
			return *now.Spec.Suspend
		}
		start := func(job *batchv1.Job) error {
			started := job.DeepCopy()
			started.Spec.Suspend = new(false)
			return r.patchJob(ctx, job, started)
		}
		seen := job.DeepCopy()
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, "changed", "meanwhile")
		Expect(k8sClient.Update(ctx, job)).To(Succeed())
		Expect(start(seen)).To(Succeed())
		Expect(suspended()).To(BeTrue())
		Expect(start(job)).To(Succeed())
		Expect(suspended()).To(BeFalse())
		Expect(k8sClient.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Expect(start(job)).To(Succeed())
	})
})

var _ = Describe("What sless made", func() {
	It("comes back when somebody changes or deletes it", func(ctx SpecContext) {
		fn := testutil.MakeFunction("drift", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		d := rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		deploy := naming.DeployNamespace(fn.Namespace)

		By("changing the Deployment")
		Eventually(func() error {
			d = deploymentOf(ctx, fn)
			d.Spec.Template.Spec.Containers[0].Image = "evil:latest"
			return k8sClient.Update(ctx, d)
		}).Should(Succeed())
		Eventually(func() string {
			return deploymentOf(ctx, fn).Spec.Template.Spec.Containers[0].Image
		}).Should(Equal(get(ctx, fn).Status.Image))

		By("deleting the Deployment, the Service and the policy")
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "drift", Namespace: deploy}}
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "sless-default", Namespace: deploy}}
		for _, obj := range []client.Object{d, service, policy} {
			Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
			uid := obj.GetUID()
			Expect(k8sClient.Delete(ctx, obj)).To(Succeed())
			Eventually(func() bool {
				err := k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), obj)
				return err == nil && obj.GetUID() != uid
			}).Should(BeTrue(), "%T", obj)
		}

		By("taking the security label off the namespace")
		ns := &corev1.Namespace{}
		Expect(k8sClient.Get(ctx, client.ObjectKey{Name: deploy}, ns)).To(Succeed())
		base := ns.DeepCopy()
		ns.Labels["pod-security.kubernetes.io/enforce"] = "privileged"
		Expect(k8sClient.Patch(ctx, ns, client.MergeFrom(base))).To(Succeed())
		Eventually(func() string {
			Expect(k8sClient.Get(ctx, client.ObjectKey{Name: deploy}, ns)).To(Succeed())
			return ns.Labels["pod-security.kubernetes.io/enforce"]
		}).Should(Equal("restricted"))
	})
})

var _ = Describe("A Function whose spec only the user can mend", func() {
	DescribeTable("says so and waits", func(ctx SpecContext, fn *testutil.FunctionWrapper, want, message string) {
		obj := fn.Obj()
		obj.Namespace = newNamespace(ctx)
		Expect(k8sClient.Create(ctx, obj)).To(Succeed())
		readyIs(ctx, obj, want)
		current := get(ctx, obj)
		Expect(meta.FindStatusCondition(current.Status.Conditions, "Ready").Message).To(ContainSubstring(message))
		Expect(meta.IsStatusConditionTrue(current.Status.Conditions, "Stalled")).To(BeTrue())
	},
		Entry("unknown runtime", testutil.MakeFunction("f", "").Runtime("cobol85").File("handler.py", ""),
			"False/RuntimeUnknown", "python3.11"),
		Entry("missing entrypoint file", testutil.MakeFunction("f", "").File("other.py", ""),
			"False/EntrypointNotFound", "handler.py"),
		Entry("path out of the folder", testutil.MakeFunction("f", "").File("handler.py", "").File("../x.py", ""),
			"False/SourceInvalid", "../x.py"),
		Entry("broken package.json", testutil.MakeFunction("f", "").Runtime("nodejs20").File("handler.js", "").
			File("package.json", "{"), "False/DependencyManifestInvalid", "package.json"),
		Entry("source over the limit", testutil.MakeFunction("f", "").
			File("handler.py", strings.Repeat("#", v1alpha1.MaxInlineSourceBytes+1)), "False/SourceTooLarge", "524288"),
	)

	It("is looked at again when the user mends it", func(ctx SpecContext) {
		fn := testutil.MakeFunction("mend", newNamespace(ctx)).File("other.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/EntrypointNotFound")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Entrypoint = "other.handle" })
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
	})

	It("leaves a Deployment of that name alone that is not its own", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		deploy := naming.DeployNamespace(namespace)
		Expect(k8sClient.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: deploy, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless},
		}})).To(Succeed())
		labels := map[string]string{"app": "foreign"}
		foreign := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "taken", Namespace: deploy},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "foreign"}}},
				},
			},
		}
		Expect(k8sClient.Create(ctx, foreign)).To(Succeed())
		fn := testutil.MakeFunction("taken", namespace).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/NameConflict")
		Expect(deploymentOf(ctx, fn).ResourceVersion).To(Equal(foreign.ResourceVersion))
	})

	It("says so when the API server refuses the Deployment", func(ctx SpecContext) {
		fn := testutil.MakeFunction("refused", newNamespace(ctx)).File("handler.py", pythonHandler).Resources(
			corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
			corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/InvalidSpec")
		Expect(meta.FindStatusCondition(get(ctx, fn).Status.Conditions, "Ready").Message).To(ContainSubstring("memory"))
	})

	It("does not share a deploy namespace with another namespace", func(ctx SpecContext) {
		long := "collides-" + strings.Repeat("a", 46)
		other := strings.TrimPrefix(naming.DeployNamespace(long), "sless-fn-")
		Expect(naming.DeployNamespace(other)).To(Equal(naming.DeployNamespace(long)))
		Expect(k8sClient.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: long}})).To(Succeed())
		first := testutil.MakeFunction("f", long).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, first)).To(Succeed())
		readyIs(ctx, first, "Unknown/RollingOut")
		Expect(k8sClient.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}})).To(Succeed())
		fn := testutil.MakeFunction("f", other).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/NameConflict")
	})

	It("does not use a namespace that sless did not make", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(k8sClient.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: naming.DeployNamespace(namespace),
		}})).To(Succeed())
		fn := testutil.MakeFunction("f", namespace).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/NameConflict")
	})
})

var _ = Describe("A Function while the platform has a fault", Serial, func() {
	It("waits for the object store and goes on by itself", func(ctx SpecContext) {
		platformS.storeOutage.set(refusing)
		DeferCleanup(func() { platformS.storeOutage.set(none) })
		fn := testutil.MakeFunction("store", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/StoreUnavailable")
		Expect(meta.IsStatusConditionTrue(get(ctx, fn).Status.Conditions, "Reconciling")).To(BeTrue())
		platformS.storeOutage.set(none)
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
	})

	It("waits for the registry, and the old version stays available", func(ctx SpecContext) {
		fn := testutil.MakeFunction("registry", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		platformS.registryOutage.set(refusing)
		DeferCleanup(func() { platformS.registryOutage.set(none) })
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.py"] += "# new\n" })
		readyIs(ctx, fn, "False/RegistryUnavailable")
		Expect(conditionOf(ctx, fn, v1alpha1.ConditionAvailable)()).To(Equal("True/Ready"))
		platformS.registryOutage.set(none)
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionReady)).Should(Equal("Unknown/RollingOut"))
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
	})

	It("can be deleted while everything is down", func(ctx SpecContext) {
		fn := testutil.MakeFunction("down", newNamespace(ctx)).File("handler.py", pythonHandler).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		d := deploymentOf(ctx, fn)
		platformS.storeOutage.set(refusing)
		platformS.registryOutage.set(refusing)
		DeferCleanup(func() { platformS.storeOutage.set(none); platformS.registryOutage.set(none) })
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
		gone := func(obj client.Object) func() bool {
			return func() bool { return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), obj)) }
		}
		Eventually(gone(fn)).Should(BeTrue())
		Eventually(gone(d)).Should(BeTrue())
		Eventually(gone(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace}})).Should(BeTrue())
		Expect(k8sClient.Get(ctx, client.ObjectKey{Name: d.Namespace}, &corev1.Namespace{})).To(Succeed())
	})
})

var _ = Describe("A Function with dependencies", Serial, func() {
	packageJSON := func(name string) string { return `{"dependencies":{"` + name + `":"1.0.0"}}` }
	node := func(name, namespace, dependency string) *v1alpha1.Function {
		return testutil.MakeFunction(name, namespace).Runtime("nodejs20").File("handler.js", "exports.handle = () => 1").
			File("package.json", packageJSON(dependency)).Obj()
	}
	buildOf := func(ctx context.Context, fn *v1alpha1.Function) *batchv1.Job {
		GinkgoHelper()
		jobs := &batchv1.JobList{}
		Eventually(func() int {
			Expect(k8sClient.List(ctx, jobs, client.InNamespace("sless-builds"),
				client.MatchingLabels{v1alpha1.LabelOwnerUID: string(fn.UID)})).To(Succeed())
			return len(jobs.Items)
		}).Should(Equal(1))
		return &jobs.Items[0]
	}
	started := func(ctx context.Context, job *batchv1.Job) func() bool {
		return func() bool {
			Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			return !ptr.Deref(job.Spec.Suspend, false)
		}
	}
	end := func(ctx context.Context, job *batchv1.Job, kinds ...batchv1.JobConditionType) {
		GinkgoHelper()
		// With the image there, a pass may find that there is nothing to build any more.
		err := k8sClient.Get(ctx, client.ObjectKeyFromObject(job), job)
		if apierrors.IsNotFound(err) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		now := new(metav1.Now())
		job.Status.StartTime = now
		for _, kind := range kinds {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
				Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: *now, LastProbeTime: *now, Reason: "BackoffLimitExceeded",
			})
			if kind == batchv1.JobComplete {
				job.Status.CompletionTime = now
			}
		}
		Expect(client.IgnoreNotFound(k8sClient.Status().Update(ctx, job))).To(Succeed())
	}
	succeed := func(ctx context.Context, job *batchv1.Job) {
		GinkgoHelper()
		for _, arg := range job.Spec.Template.Spec.Containers[0].Args {
			var target string
			if n, _ := fmt.Sscanf(arg, "--target=%s", &target); n == 1 {
				platformS.pushImage(target)
			}
		}
		if err := k8sClient.Get(ctx, client.ObjectKeyFromObject(job), job); apierrors.IsNotFound(err) {
			return // sless has seen the image already, and removed the Job
		}
		end(ctx, job, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	}

	It("builds them once, one build at a time, and then only appends code", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		first, second := node("first", namespace, "one"), node("second", namespace, "two")
		Expect(k8sClient.Create(ctx, first)).To(Succeed())
		firstJob := buildOf(ctx, first)
		Eventually(started(ctx, firstJob)).Should(BeTrue())
		readyIs(ctx, first, "Unknown/Building")
		Expect(get(ctx, first).Status.Phase).To(Equal(v1alpha1.PhaseBuilding))

		Expect(k8sClient.Create(ctx, second)).To(Succeed())
		secondJob := buildOf(ctx, second)
		readyIs(ctx, second, "Unknown/BuildQueued")
		Eventually(func() string {
			return meta.FindStatusCondition(get(ctx, second).Status.Conditions, "Ready").Message
		}).Should(ContainSubstring("position 1"))
		Expect(started(ctx, secondJob)()).To(BeFalse())

		succeed(ctx, firstJob)
		rollOut(ctx, first)
		readyIs(ctx, first, "True/Ready")
		Eventually(started(ctx, secondJob)).Should(BeTrue())
		succeed(ctx, secondJob)
		rollOut(ctx, second)
		readyIs(ctx, second, "True/Ready")

		image := get(ctx, first).Status.Image
		change(ctx, first, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.js"] += "// new" })
		Eventually(func() string { return get(ctx, first).Status.Image }).ShouldNot(Equal(image))
		jobs := &batchv1.JobList{}
		Expect(k8sClient.List(ctx, jobs, client.InNamespace("sless-builds"),
			client.MatchingLabels{v1alpha1.LabelOwnerUID: string(first.UID)})).To(Succeed())
		for i := range jobs.Items {
			Expect(jobs.Items[i].DeletionTimestamp).NotTo(BeNil(), "a change of code started a build")
		}
	})

	It("keeps its image apart from another namespace's code in the same repository", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-b"}}
		Expect(k8sClient.Create(ctx, other)).To(Succeed())
		code := testutil.MakeFunction("b-deps", namespace).File("handler.py", pythonHandler).Obj()
		user := node("web", other.Name, "shared-repository")
		repository := naming.DependencyRepository(platformS.registryHost, other.Name)
		Expect(naming.CodeRepository(platformS.registryHost, namespace, code.Name)).To(Equal(repository))
		Expect(k8sClient.Create(ctx, code)).To(Succeed())
		rollOut(ctx, code)
		readyIs(ctx, code, "True/Ready")
		Expect(k8sClient.Create(ctx, user)).To(Succeed())
		job := buildOf(ctx, user)
		Eventually(started(ctx, job)).Should(BeTrue())
		succeed(ctx, job)
		rollOut(ctx, user)
		readyIs(ctx, user, "True/Ready")
		base := get(ctx, user).Status.History[0].Base
		Expect(base).To(HavePrefix(repository + "@"))
		Expect(tagsOf(ctx, repository)).To(HaveLen(2))
		Expect(get(ctx, code).Status.Image).To(HavePrefix(repository + "@"))
		Expect(exists(ctx, get(ctx, code).Status.Image)).To(BeTrue())
		thief := testutil.MakeFunction("thief", namespace).Obj()
		thief.Spec.Source.Image = &v1alpha1.ImageSource{Ref: base}
		Expect(k8sClient.Create(ctx, thief)).To(Succeed())
		readyIs(ctx, thief, "False/SourceNotFound")
	})

	positionIs := func(ctx context.Context, fn *v1alpha1.Function, position int) {
		GinkgoHelper()
		Eventually(func() string { return readyOf(get(ctx, fn)).Message }).
			Should(ContainSubstring("position %d;", position))
	}

	It("lets another namespace's build come before a queue of builds", func(ctx SpecContext) {
		hog, shop := newNamespace(ctx), newNamespace(ctx)
		fns, jobs := []*v1alpha1.Function{}, []*batchv1.Job{}
		for i, namespace := range []string{hog, hog, hog, shop} {
			fn := node(fmt.Sprintf("fair-%d", i), namespace, fmt.Sprintf("fair-%d", i))
			Expect(k8sClient.Create(ctx, fn)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(k8sClient.Delete(ctx, fn)).To(Succeed()) })
			fns, jobs = append(fns, fn), append(jobs, buildOf(ctx, fn))
		}
		Eventually(started(ctx, jobs[0])).Should(BeTrue())
		positionIs(ctx, fns[3], 1)
		positionIs(ctx, fns[1], 2)
		positionIs(ctx, fns[2], 3)
		order := []int{0, 3, 1, 2}
		for i, next := range order[1:] {
			succeed(ctx, jobs[order[i]])
			Eventually(started(ctx, jobs[next])).Should(BeTrue(), "build of function %d", next)
		}
		succeed(ctx, jobs[2])
	})

	It("leaves the queue when it wants another build or none, and keeps no place in it", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		first, changed := node("first", namespace, "queue-one"), node("changed", namespace, "queue-two")
		faulty, last := node("faulty", namespace, "queue-three"), node("last", namespace, "queue-four")
		for _, fn := range []*v1alpha1.Function{first, changed, faulty, last} {
			Expect(k8sClient.Create(ctx, fn)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(k8sClient.Delete(ctx, fn)).To(Succeed()) })
			buildOf(ctx, fn)
		}
		positionIs(ctx, last, 3)
		change(ctx, changed, func(f *v1alpha1.Function) { delete(f.Spec.Source.Inline.Files, "package.json") })
		change(ctx, faulty, func(f *v1alpha1.Function) {
			f.Spec.Source = v1alpha1.FunctionSource{ConfigMap: &v1alpha1.ConfigMapReference{Name: "none"}}
		})
		positionIs(ctx, last, 1)
		succeed(ctx, buildOf(ctx, first))
		Eventually(started(ctx, buildOf(ctx, last))).Should(BeTrue())
		succeed(ctx, buildOf(ctx, last))
	})

	It("gives the build the files of a Secret for private indexes, and takes them away with it", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		fn := node("private", namespace, "private-package")
		fn.Spec.Build.SecretName = "index"
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/ConfigMissing")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "index", Namespace: namespace},
			StringData: map[string]string{".npmrc": "//npm.example.com/:_authToken=t0ken", "other": "not for builds"}}
		Expect(k8sClient.Create(ctx, secret)).To(Succeed())
		job := buildOf(ctx, fn)
		Eventually(started(ctx, job)).Should(BeTrue())
		copied := &corev1.Secret{}
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), copied)).To(Succeed())
		Expect(copied.Data).To(HaveLen(1))
		Expect(copied.Data).To(HaveKey(".npmrc"))
		Expect(metav1.IsControlledBy(copied, job)).To(BeTrue())
		kaniko := job.Spec.Template.Spec.InitContainers[1]
		Expect(kaniko.Args).To(ContainElement("--build-arg=NPM_CONFIG_USERCONFIG=/sless-index/.npmrc"))
		succeed(ctx, job)
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
	})

	It("may build with the whole source, and what comes out is its image", func(ctx SpecContext) {
		fn := testutil.MakeFunction("whole", newNamespace(ctx)).Runtime("nodejs20").File("src/index.ts", "export {}").
			File("package.json", `{"scripts":{"build":"tsc"}}`).File(".npmrc", "//npm.example.com/:_authToken=t0ken").Obj()
		fn.Spec.Build.Strategy = v1alpha1.BuildStrategyFull
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		job := buildOf(ctx, fn)
		Eventually(started(ctx, job)).Should(BeTrue())
		pod := job.Spec.Template.Spec
		digest := strings.TrimPrefix(get(ctx, fn).Status.SourceDigest, "sha256:")
		Expect(pod.InitContainers[0].Args).To(ContainElement("--under=" + fn.Namespace + "/" + digest + ".tar.gz=" + digest))
		Expect(pod.Containers[0].Args).To(ContainElements(
			"--label=sless.io/namespace="+fn.Namespace, "--label=sless.io/source-digest=sha256:"+digest))
		succeed(ctx, job)
		d := rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		Expect(d.Spec.Template.Spec.Containers[0].Image).To(HavePrefix(
			platformS.registryHost + "/sless-" + fn.Namespace + "-whole@sha256:"))

		By("changing the code, which is another build")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["src/index.ts"] += "// new" })
		readyIs(ctx, fn, "Unknown/Building")
		By("going back, which is none")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["src/index.ts"] = "export {}" })
		readyIs(ctx, fn, "True/Ready")
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
	})

	It("shares a build within a namespace, also when the Function that began it goes away", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		first, second := node("shares-first", namespace, "shared"), node("shares-second", namespace, "shared")
		Expect(k8sClient.Create(ctx, first)).To(Succeed())
		job := buildOf(ctx, first)
		Eventually(started(ctx, job)).Should(BeTrue())
		Expect(k8sClient.Create(ctx, second)).To(Succeed())
		readyIs(ctx, second, "Unknown/Building")
		Expect(k8sClient.Delete(ctx, first)).To(Succeed())
		again := buildOf(ctx, second)
		Expect(again.Name).To(Equal(job.Name))
		Eventually(started(ctx, again)).Should(BeTrue())
		succeed(ctx, again)
		rollOut(ctx, second)
		readyIs(ctx, second, "True/Ready")

		third := node("shares-third", namespace, "shared")
		Expect(k8sClient.Create(ctx, third)).To(Succeed())
		readyIs(ctx, third, "Unknown/RollingOut")
	})

	It("tells how the build failed, does not try again, and removes the build with the Function", func(ctx SpecContext) {
		fn := node("fails", newNamespace(ctx), "no-such-package")
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		job := buildOf(ctx, fn)
		Eventually(started(ctx, job)).Should(BeTrue())
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: "build-", Namespace: job.Namespace, Annotations: job.Spec.Template.Annotations,
				Labels: job.Spec.Template.Labels,
			},
			Spec: job.Spec.Template.Spec,
		}
		Expect(k8sClient.Create(ctx, pod)).To(Succeed())
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "kaniko", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "npm error code E404"},
		}}}
		Expect(k8sClient.Status().Update(ctx, pod)).To(Succeed())
		end(ctx, job, batchv1.JobFailureTarget, batchv1.JobFailed)
		readyIs(ctx, fn, "False/BuildFailed")
		Expect(meta.FindStatusCondition(get(ctx, fn).Status.Conditions, "Built").Message).To(ContainSubstring("E404"))
		uid := job.UID
		Consistently(func() string { return string(buildOf(ctx, fn).UID) }, "1s").Should(Equal(string(uid)))

		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
		Eventually(func() bool {
			err := k8sClient.Get(ctx, client.ObjectKeyFromObject(job), job)
			return apierrors.IsNotFound(err) || (err == nil && job.DeletionTimestamp != nil)
		}).Should(BeTrue())
		Eventually(func() bool {
			return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(fn), fn))
		}).Should(BeTrue())
	})
})

var _ = Describe("A Function that refers to a Secret", func() {
	It("waits for it, runs with a copy of the needed key alone, and rolls once when it changes", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		fn := testutil.MakeFunction("secretive", namespace).File("handler.py", pythonHandler).Obj()
		fn.Spec.Env = []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "password",
		}}}}
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/ConfigMissing")

		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: namespace},
			Data: map[string][]byte{"password": []byte("one"), "other": []byte("not needed")}}
		Expect(k8sClient.Create(ctx, secret)).To(Succeed())
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		copies := func() []corev1.Secret {
			list := &corev1.SecretList{}
			Expect(k8sClient.List(ctx, list, client.InNamespace(naming.DeployNamespace(namespace)),
				client.HasLabels{v1alpha1.LabelOwnerUID})).To(Succeed())
			return list.Items
		}
		Expect(copies()).To(HaveLen(1))
		first := copies()[0]
		Expect(first.Data).To(Equal(map[string][]byte{"password": []byte("one")}))
		generation := deploymentOf(ctx, fn).Generation

		By("changing a key that is not needed")
		secret.Data["other"] = []byte("changed")
		lookedAfter(FunctionController, func() { Expect(k8sClient.Update(ctx, secret)).To(Succeed()) })
		Consistently(func() int64 { return deploymentOf(ctx, fn).Generation }, "1s").Should(Equal(generation))

		By("changing the needed one")
		secret.Data["password"] = []byte("two")
		Expect(k8sClient.Update(ctx, secret)).To(Succeed())
		Eventually(func() int64 { return deploymentOf(ctx, fn).Generation }).Should(Equal(generation + 1))
		Expect(copies()).To(HaveLen(2), "the old version keeps its copy while it runs")
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		Eventually(copies).Should(HaveLen(1))
		Expect(copies()[0].Data).To(Equal(map[string][]byte{"password": []byte("two")}))
		Expect(deploymentOf(ctx, fn).Generation).To(Equal(generation + 1))

		By("deleting the Function")
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
		Eventually(copies).Should(BeEmpty())
	})
})
