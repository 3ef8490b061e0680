//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

const v1 = "def handle(event, context):\n    return 'one'\n"

var _ = Describe("A user", func() {
	It("applies a function, calls it, changes the code and calls again", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "hello", v1)
		create(ctx, fn)
		answers(ctx, fn, "one")
		Expect(current(ctx, fn).Status.Phase).To(Equal(v1alpha1.PhaseReady))

		changeCode(ctx, fn, "handler.py", strings.ReplaceAll(v1, "one", "two"))
		waitReady(ctx, fn)
		answers(ctx, fn, "two")
		Expect(current(ctx, fn).Status.History).To(HaveLen(2))

		By("going back to the first code, which needs no build")
		first := current(ctx, fn).Status.History[1].Image
		changeCode(ctx, fn, "handler.py", v1)
		waitReady(ctx, fn)
		answers(ctx, fn, "one")
		Expect(current(ctx, fn).Status.Image).To(Equal(first))
	})

	It("uses a package of the npm registry, and changes code without another build", func(ctx SpecContext) {
		fn := function(newNamespace(ctx), "slug", "nodejs20", map[string]string{
			"package.json": `{"dependencies":{"slugify":"1.6.6"}}`,
			"handler.js":   "const s = require('slugify');\nexports.handle = () => s('Ada Lovelace');\n",
		})
		create(ctx, fn)
		answers(ctx, fn, "Ada-Lovelace")
		Expect(buildsOf(ctx, fn)).To(BeEmpty(), "a build that ended is removed")

		changeCode(ctx, fn, "handler.js", "const s = require('slugify');\nexports.handle = () => s('Alan Turing');\n")
		Eventually(ready(ctx, fn)).Should(Equal("True/Ready"))
		answers(ctx, fn, "Alan-Turing")
		Expect(buildsOf(ctx, fn)).To(BeEmpty())
	})

	It("breaks the handler: the old version goes on answering, and the condition names file and line", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "careful", v1)
		create(ctx, fn)
		answers(ctx, fn, "one")
		changeCode(ctx, fn, "handler.py", "import os\n\nprint(undefined_name)\n"+v1)
		Eventually(ready(ctx, fn)).Should(Equal("False/HandlerLoadFailed"))
		message := condition(ctx, fn, v1alpha1.ConditionReady).Message
		Expect(message).To(And(ContainSubstring("handler.py line 3"), ContainSubstring("undefined_name")))
		Expect(condition(ctx, fn, v1alpha1.ConditionAvailable).Status).To(Equal(metav1.ConditionTrue))
		Consistently(func() string { return get(ctx, fn).Body }, pause).Should(Equal("one"))

		By("mending it")
		changeCode(ctx, fn, "handler.py", strings.ReplaceAll(v1, "one", "three"))
		waitReady(ctx, fn)
		answers(ctx, fn, "three")
	})

	It("applies the same twice: nothing is written", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "still", v1)
		create(ctx, fn)
		before, deployment := current(ctx, fn), deploymentOf(ctx, fn)
		again := python(fn.Namespace, fn.Name, v1)
		again.ResourceVersion = before.ResourceVersion
		again.Finalizers = before.Finalizers
		Expect(k8s.Update(ctx, again)).To(Succeed())
		Consistently(func() string { return current(ctx, fn).ResourceVersion }, pause).Should(Equal(before.ResourceVersion))
		Expect(deploymentOf(ctx, fn).ResourceVersion).To(Equal(deployment.ResourceVersion))
	})

	It("changes env, resources and replicas: each rolls once, replicas not at all", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "roll", "import os\ndef handle(event, context):\n    return os.environ.get('WHO', 'nobody')\n")
		create(ctx, fn)
		answers(ctx, fn, "nobody")
		sets := func() int { return len(replicaSetsOf(ctx, fn)) }
		Expect(sets()).To(Equal(1))
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Env = []corev1.EnvVar{{Name: "WHO", Value: "Ada"}} })
		waitReady(ctx, fn)
		answers(ctx, fn, "Ada")
		Expect(sets()).To(Equal(2))
		change(ctx, fn, func(f *v1alpha1.Function) {
			f.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
		})
		waitReady(ctx, fn)
		Expect(sets()).To(Equal(3))
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Replicas = ptr.To[int32](2) })
		waitReady(ctx, fn)
		Expect(current(ctx, fn).Status.Replicas).To(BeEquivalentTo(2))
		Expect(sets()).To(Equal(3))
	})

	It("keeps a password in a Secret and settings in a ConfigMap; a change of either rolls once", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: namespace},
			StringData: map[string]string{"password": "s3cret", "unused": "x"}}
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: namespace},
			Data: map[string]string{"mode": "fast"}}
		Expect(k8s.Create(ctx, secret)).To(Succeed())
		Expect(k8s.Create(ctx, settings)).To(Succeed())
		fn := python(namespace, "configured", strings.Join([]string{
			"import os",
			"def handle(event, context):",
			"    return os.environ['PASSWORD'] + ' ' + open('/settings/mode').read() + ' ' + str('unused' in os.environ)",
		}, "\n"))
		fn.Spec.Env = []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "password",
		}}}}
		fn.Spec.Volumes = []v1alpha1.FunctionVolume{{
			Name: "settings", MountPath: "/settings", ConfigMap: &v1alpha1.ConfigMapReference{Name: "settings"},
		}}
		create(ctx, fn)
		answers(ctx, fn, "s3cret fast False")
		base := settings.DeepCopy()
		settings.Data["mode"] = "slow"
		Expect(k8s.Patch(ctx, settings, client.MergeFrom(base))).To(Succeed())
		answers(ctx, fn, "s3cret slow False")
		waitReady(ctx, fn)
		Expect(replicaSetsOf(ctx, fn)).To(HaveLen(2))
	})

	It("keeps code in a ConfigMap, and promotes the image that was built from it to another function", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		code := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "code", Namespace: namespace},
			Data: map[string]string{"handler.py": v1}}
		Expect(k8s.Create(ctx, code)).To(Succeed())
		staging := python(namespace, "staging", "")
		staging.Spec.Source = v1alpha1.FunctionSource{ConfigMap: &v1alpha1.ConfigMapReference{Name: "code"}}
		create(ctx, staging)
		answers(ctx, staging, "one")

		production := python(namespace, "production", "")
		production.Spec.Source = v1alpha1.FunctionSource{Image: &v1alpha1.ImageSource{Ref: current(ctx, staging).Status.Image}}
		create(ctx, production)
		answers(ctx, production, "one")

		base := code.DeepCopy()
		code.Data["handler.py"] = strings.ReplaceAll(v1, "one", "two")
		Expect(k8s.Patch(ctx, code, client.MergeFrom(base))).To(Succeed())
		answers(ctx, staging, "two")
		Expect(get(ctx, production).Body).To(Equal("one"))
	})

	It("deletes a function: nothing is left but the namespaces", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "leaving", v1)
		create(ctx, fn)
		deploy := naming.DeployNamespace(fn.Namespace)
		Expect(k8s.Delete(ctx, fn)).To(Succeed())
		Eventually(gone(ctx, fn)).Should(BeTrue())
		for _, list := range []client.ObjectList{
			&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.PodList{}, &corev1.ServiceList{}, &batchv1.JobList{},
			&corev1.SecretList{},
		} {
			Eventually(func() int {
				Expect(k8s.List(ctx, list, client.InNamespace(deploy))).To(Succeed())
				items, err := meta.ExtractList(list)
				Expect(err).NotTo(HaveOccurred())
				return len(items)
			}).Should(BeZero(), "%T", list)
		}
		Expect(k8s.Get(ctx, client.ObjectKey{Name: deploy}, &corev1.Namespace{})).To(Succeed())
		Expect(k8s.Get(ctx, client.ObjectKey{Name: fn.Namespace}, &corev1.Namespace{})).To(Succeed())
	})

	It("calls a function that does not exist", func(ctx SpecContext) {
		fn := python(newNamespace(ctx), "known", v1)
		create(ctx, fn)
		url := strings.TrimSuffix(current(ctx, fn).Status.URL, "known") + "unknown"
		resp, err := http.Get(url)
		Expect(err).NotTo(HaveOccurred())
		Expect(resp.Body.Close()).To(Succeed())
		Expect(resp.StatusCode).To(Equal(http.StatusNotFound))
	})
})

func buildsOf(ctx context.Context, fn *v1alpha1.Function) []batchv1.Job {
	GinkgoHelper()
	jobs := &batchv1.JobList{}
	Expect(k8s.List(ctx, jobs, client.InNamespace("sless-builds"),
		client.MatchingLabels{v1alpha1.LabelOwnerUID: string(current(ctx, fn).UID)})).To(Succeed())
	return jobs.Items
}

func replicaSetsOf(ctx context.Context, fn *v1alpha1.Function) []appsv1.ReplicaSet {
	GinkgoHelper()
	sets := &appsv1.ReplicaSetList{}
	Expect(k8s.List(ctx, sets, client.InNamespace(naming.DeployNamespace(fn.Namespace)))).To(Succeed())
	return sets.Items
}
