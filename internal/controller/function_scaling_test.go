// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	httpv1beta1 "github.com/kedacore/http-add-on/operator/apis/http/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/testutil"
)

// kedaDefinitions are KEDA's kinds with as much of a schema as the tests need.
func kedaDefinitions() []*apiextensionsv1.CustomResourceDefinition {
	define := func(group, version, plural, kind string) *apiextensionsv1.CustomResourceDefinition {
		open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
		return &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ListKind: kind + "List"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: version, Served: true, Storage: true,
					Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &open},
					Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				}},
			},
		}
	}
	return []*apiextensionsv1.CustomResourceDefinition{
		define("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject"),
		define("http.keda.sh", "v1beta1", "interceptorroutes", "InterceptorRoute"),
	}
}

// scaledObjectOf reads the ScaledObject of a Function, or nil.
func scaledObjectOf(ctx context.Context, fn *v1alpha1.Function) *unstructured.Unstructured {
	GinkgoHelper()
	obj := newScaledObject()
	key := client.ObjectKey{Namespace: naming.DeployNamespace(fn.Namespace), Name: fn.Name}
	err := k8sClient.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return obj
}

// scaleTo plays KEDA's part: it sets the replicas, and the Deployment's status follows.
func scaleTo(ctx context.Context, fn *v1alpha1.Function, replicas, ready int32) {
	GinkgoHelper()
	d := deploymentOf(ctx, fn)
	base := d.DeepCopy()
	d.Spec.Replicas = &replicas
	Expect(k8sClient.Patch(ctx, d, client.MergeFrom(base), client.FieldOwner("keda-operator"))).To(Succeed())
	setStatus(ctx, d, func() {
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: ready,
			AvailableReplicas: ready,
			Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
			}},
		}
	})
}

func kedaSays(ctx context.Context, fn *v1alpha1.Function, status, message string) {
	GinkgoHelper()
	obj := scaledObjectOf(ctx, fn)
	setStatus(ctx, obj, func() {
		Expect(unstructured.SetNestedSlice(obj.Object, []any{
			map[string]any{"type": "Ready", "status": status, "message": message},
		}, "status", "conditions")).To(Succeed())
	})
}

// endpointsOf makes the EndpointSlice of a Service without any pod.
func endpointsOf(ctx context.Context, namespace, service string) *discoveryv1.EndpointSlice {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	Expect(client.IgnoreAlreadyExists(k8sClient.Create(ctx, ns))).To(Succeed())
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: service, Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	Expect(k8sClient.Create(ctx, slice)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(k8sClient.Delete(ctx, slice)).To(Succeed()) })
	return slice
}

var _ = Describe("A Function that scales", Ordered, Serial, func() {
	var fn *v1alpha1.Function

	It("runs with one replica while KEDA is not installed, and says so", func(ctx SpecContext) {
		fn = testutil.MakeFunction("scaled", newNamespace(ctx)).File("handler.py", pythonHandler).Scaling(0, 5).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("False/NoAutoscaler"))
		Expect(*deploymentOf(ctx, fn).Spec.Replicas).To(BeEquivalentTo(1))
	})

	It("picks KEDA up when it is installed, and leaves the replicas to it", func(ctx SpecContext) {
		_, err := envtest.InstallCRDs(restConfig, envtest.CRDInstallOptions{CRDs: kedaDefinitions()})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() any { return scaledObjectOf(ctx, fn) }).ShouldNot(BeNil())
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("False/Pending"))
		kedaSays(ctx, fn, "True", "")
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("True/Scaling"))
		route := &httpv1beta1.InterceptorRoute{}
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(scaledObjectOf(ctx, fn)), route)).To(Succeed())
		Expect(route.Spec.Rules[0].Hosts).To(ConsistOf(naming.VirtualHost(fn.Namespace, fn.Name)))
		Expect(*deploymentOf(ctx, fn).Spec.Replicas).To(BeEquivalentTo(1), "the hand-over lost the number of replicas")

		By("going to zero, waking and growing: it stays ready, and nothing writes the replicas but KEDA")
		scaleTo(ctx, fn, 0, 0)
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("True/AtZero"))
		readyIs(ctx, fn, "True/Ready")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Annotations = map[string]string{v1alpha1.AnnotationReconcileAt: "now"} })
		scaleTo(ctx, fn, 1, 0)
		Eventually(func() string {
			return meta.FindStatusCondition(get(ctx, fn).Status.Conditions, v1alpha1.ConditionAvailable).Reason
		}).Should(Equal(v1alpha1.ReasonWaking))
		readyIs(ctx, fn, "True/Ready")
		scaleTo(ctx, fn, 5, 4)
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("True/AtMaxReplicas"))
		Expect(*deploymentOf(ctx, fn).Spec.Replicas).To(BeEquivalentTo(5))

		By("changing the code with replicas running: they stay as many")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.py"] += "# new\n" })
		image := get(ctx, fn).Status.Image
		Eventually(func() string { return get(ctx, fn).Status.Image }).ShouldNot(Equal(image))
		Eventually(func() int32 { return *deploymentOf(ctx, fn).Spec.Replicas }).Should(BeEquivalentTo(5))
	})

	It("tries new code in a pod of its own while it is at zero", func(ctx SpecContext) {
		scaleTo(ctx, fn, 0, 0)
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("True/AtZero"))
		running := deploymentOf(ctx, fn).Labels[v1alpha1.LabelRevision]
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Inline.Files["handler.py"] += "# newer\n" })
		endPreflight(ctx, preflightOf(ctx, fn), 0, "")
		Eventually(func() string { return deploymentOf(ctx, fn).Labels[v1alpha1.LabelRevision] }).ShouldNot(Equal(running))
		Expect(*deploymentOf(ctx, fn).Spec.Replicas).To(BeZero())
		scaleTo(ctx, fn, 0, 0)
		readyIs(ctx, fn, "True/Ready")
	})

	It("tells what KEDA complains about, and repairs what was deleted by hand", func(ctx SpecContext) {
		kedaSays(ctx, fn, "False", "the scaler is away")
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("False/AutoscalerFailed"))
		old := scaledObjectOf(ctx, fn)
		Expect(k8sClient.Delete(ctx, old)).To(Succeed())
		Eventually(func() bool {
			now := scaledObjectOf(ctx, fn)
			return now != nil && now.GetUID() != old.GetUID()
		}).Should(BeTrue())
	})

	It("says which part of KEDA does not run, and that it cannot be woken", func(ctx SpecContext) {
		kedaSays(ctx, fn, "True", "")
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("True/AtZero"))
		operator := endpointsOf(ctx, "keda", "keda-operator")
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("False/AutoscalerFailed"))
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionReady)).WithTimeout(time.Minute).Should(Equal("False/AutoscalerFailed"))
		Expect(meta.FindStatusCondition(get(ctx, fn).Status.Conditions, v1alpha1.ConditionReady).Message).To(
			ContainSubstring("KEDA's operator"))
		operator.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}
		Expect(k8sClient.Update(ctx, operator)).To(Succeed())
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("True/AtZero"))
		readyIs(ctx, fn, "True/Ready")
	})

	It("is held at zero by KEDA while its Triggers are disabled", func(ctx SpecContext) {
		kedaSays(ctx, fn, "True", "")
		trigger := testutil.MakeTrigger("off", fn.Namespace, fn.Name).Obj()
		trigger.Spec.Enabled = new(false)
		Expect(k8sClient.Create(ctx, trigger)).To(Succeed())
		Eventually(func() string {
			return scaledObjectOf(ctx, fn).GetAnnotations()[resources.PausedReplicasAnnotation]
		}).Should(Equal("0"))
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("False/Paused"))
		Expect(k8sClient.Delete(ctx, trigger)).To(Succeed())
		Eventually(func() bool {
			_, paused := scaledObjectOf(ctx, fn).GetAnnotations()[resources.PausedReplicasAnnotation]
			return paused
		}).Should(BeFalse())
	})

	It("is switched off and on while its newest code cannot run", func(ctx SpecContext) {
		paused := func() bool { return resources.Paused(scaledObjectOf(ctx, fn)) }
		switchOff := func() *v1alpha1.Trigger {
			trigger := testutil.MakeTrigger("off", fn.Namespace, fn.Name).Obj()
			trigger.Spec.Enabled = new(false)
			Expect(k8sClient.Create(ctx, trigger)).To(Succeed())
			return trigger
		}
		trigger := switchOff()
		Eventually(paused).Should(BeTrue())
		good := fn.Spec.Entrypoint
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Entrypoint = "missing.handle" })
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionSourceReady)).Should(HavePrefix("False/"))
		Expect(k8sClient.Delete(ctx, trigger)).To(Succeed())
		Eventually(paused).Should(BeFalse())
		trigger = switchOff()
		Eventually(paused).Should(BeTrue())
		Expect(k8sClient.Delete(ctx, trigger)).To(Succeed())
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Entrypoint = good })
		Eventually(paused).Should(BeFalse())
		readyIs(ctx, fn, "True/Ready")
	})

	It("goes back to a fixed number of replicas, and to scaling again", func(ctx SpecContext) {
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Scaling, f.Spec.Replicas = nil, ptr.To[int32](3) })
		Eventually(func() any { return scaledObjectOf(ctx, fn) }).Should(BeNil())
		Eventually(func() int32 { return *deploymentOf(ctx, fn).Spec.Replicas }).Should(BeEquivalentTo(3))
		Eventually(conditionOf(ctx, fn, v1alpha1.ConditionScalingActive)).Should(Equal("False/FixedReplicas"))
		change(ctx, fn, func(f *v1alpha1.Function) {
			f.Spec.Replicas, f.Spec.Scaling = nil, &v1alpha1.FunctionScaling{MinReplicas: ptr.To[int32](1)}
		})
		Eventually(func() any { return scaledObjectOf(ctx, fn) }).ShouldNot(BeNil())
		Consistently(func() int32 { return *deploymentOf(ctx, fn).Spec.Replicas }, "2s").Should(BeEquivalentTo(3))
	})

	It("refuses a route that is not its own", func(ctx SpecContext) {
		other := testutil.MakeFunction("taken", fn.Namespace).File("handler.py", pythonHandler).Scaling(0, 2).Obj()
		route := &httpv1beta1.InterceptorRoute{ObjectMeta: metav1.ObjectMeta{
			Name: other.Name, Namespace: naming.DeployNamespace(fn.Namespace),
		}}
		Expect(k8sClient.Create(ctx, route)).To(Succeed())
		Expect(k8sClient.Create(ctx, other)).To(Succeed())
		readyIs(ctx, other, "False/NameConflict")
		Expect(k8sClient.Delete(ctx, other)).To(Succeed())
	})

	It("leaves nothing when it is deleted, and survives that KEDA is removed", func(ctx SpecContext) {
		left := testutil.MakeFunction("left", fn.Namespace).File("handler.py", pythonHandler).Scaling(0, 2).Obj()
		Expect(k8sClient.Create(ctx, left)).To(Succeed())
		Eventually(func() any { return scaledObjectOf(ctx, left) }).ShouldNot(BeNil())
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
		Eventually(func() any { return scaledObjectOf(ctx, fn) }).Should(BeNil())
		Eventually(func() bool {
			return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(fn), &v1alpha1.Function{}))
		}).Should(BeTrue())

		Expect(envtest.UninstallCRDs(restConfig, envtest.CRDInstallOptions{CRDs: kedaDefinitions()})).To(Succeed())
		Eventually(conditionOf(ctx, left, v1alpha1.ConditionScalingActive)).Should(Equal("False/NoAutoscaler"))
		Expect(k8sClient.Delete(ctx, left)).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(left), &v1alpha1.Function{}))
		}).Should(BeTrue())
	})
})
