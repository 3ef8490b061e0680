//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
)

// cleanedUp is long against the times that config/local sets for the clean-up.
const cleanedUp = 6 * time.Minute

var _ = Describe("The clean-up", SpecPriority(first), func() {
	var (
		platform          *platformServers
		tenant, namespace string
	)
	slug := func(version, word string) []byte {
		return zipOf(map[string]string{
			"package.json": fmt.Sprintf(`{"dependencies":{"slugify":"%s"}}`, version),
			"handler.js":   fmt.Sprintf("const s = require('slugify');\nexports.handle = () => s('Clean %s');\n", word),
		})
	}
	upload := func(ctx context.Context, fn *v1alpha1.Function, code []byte, want string) {
		GinkgoHelper()
		answer := issuer.upload(ctx, namespace, fn.Name, tenant, code)
		Expect(answer.status).To(Equal(http.StatusOK), answer.body)
		waitReady(ctx, fn)
		answers(ctx, fn, want)
	}
	node := func(ctx context.Context, name string) *v1alpha1.Function {
		GinkgoHelper()
		fn := uploaded(namespace, name)
		fn.Spec.Runtime = "nodejs20"
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		return fn
	}

	BeforeEach(func(ctx SpecContext) {
		tenant, namespace = newTenant(ctx)
		platform = connectPlatform(ctx)
	})

	It("removes what a deleted function leaves, and nothing that another one uses", func(ctx SpecContext) {
		first, second := node(ctx, "first"), node(ctx, "second")
		upload(ctx, first, slug("1.6.6", "Up"), "Clean-Up")
		upload(ctx, second, slug("1.6.6", "Up"), "Clean-Up")
		upload(ctx, first, slug("1.6.6", "Again"), "Clean-Again")
		upload(ctx, first, slug("1.6.5", "Differently"), "Clean-Differently")
		Expect(platform.tags(ctx, namespace, "first")).To(HaveLen(3))
		Expect(platform.tags(ctx, namespace, "deps")).To(HaveLen(2))

		Expect(k8s.Delete(ctx, first)).To(Succeed())
		code := objectstore.CodeKey(namespace, current(ctx, second).Spec.Source.Upload.SHA256)
		tags := func(repository string) func() []string {
			return func() []string {
				Expect(platform.objects(ctx, namespace)).To(ContainElement(code), "what the second function needs is never removed")
				return platform.tags(ctx, namespace, repository)
			}
		}
		By("waiting until its images are gone")
		Eventually(tags("first")).WithTimeout(cleanedUp).Should(BeEmpty())
		By("waiting until the dependencies are gone that only it used")
		Eventually(tags("deps")).WithTimeout(cleanedUp).Should(HaveLen(1))
		By("waiting until its code is gone")
		Eventually(func() []string { return platform.objects(ctx, namespace) }).WithTimeout(cleanedUp).Should(ConsistOf(code))

		By("starting the other one's pod again, and pulling all of its image")
		old := deploymentOf(ctx, second).Generation
		change(ctx, second, func(f *v1alpha1.Function) {
			metav1.SetMetaDataAnnotation(&f.ObjectMeta, v1alpha1.AnnotationRestartedAt, "now")
		})
		Eventually(func() int64 { return deploymentOf(ctx, second).Generation }).Should(BeNumerically(">", old))
		waitReady(ctx, second)
		answers(ctx, second, "Clean-Up")
		platform.pull(ctx, current(ctx, second).Status.Image)
		pullOnNode(ctx, second)

		By("changing its code, which needs no build, since the dependency image is there")
		upload(ctx, second, slug("1.6.6", "Once More"), "Clean-Once-More")
		Expect(buildsOf(ctx, second)).To(BeEmpty())
		Expect(platform.tags(ctx, namespace, "deps")).To(HaveLen(1))

		By("going back to the code of its history")
		upload(ctx, second, slug("1.6.6", "Up"), "Clean-Up")
	})

	It("leaves nothing of the last function, which can then be made anew", func(ctx SpecContext) {
		last := node(ctx, "last")
		upload(ctx, last, slug("1.6.6", "Up"), "Clean-Up")
		upload(ctx, last, slug("1.6.6", "Once More"), "Clean-Once-More")
		Expect(k8s.Delete(ctx, last)).To(Succeed())
		By("waiting until its code is gone")
		Eventually(func() []string { return platform.objects(ctx, namespace) }).WithTimeout(cleanedUp).Should(BeEmpty())
		for _, repository := range []string{"last", "deps"} {
			By("waiting until the images are gone: " + repository)
			Eventually(func() []string { return platform.tags(ctx, namespace, repository) }).WithTimeout(cleanedUp).Should(BeEmpty())
		}
		By("waiting until nobody remembers it")
		Eventually(gone(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "sless-builds", Name: "sless-cleanup-" + namespace,
		}})).WithTimeout(cleanedUp).Should(BeTrue())

		By("making it anew")
		upload(ctx, node(ctx, "last"), slug("1.6.6", "Up"), "Clean-Up")
		Expect(platform.tags(ctx, namespace, "deps")).To(HaveLen(1))
	})
})

// pullOnNode makes a pod of the function's image that must ask the registry for it.
func pullOnNode(ctx context.Context, fn *v1alpha1.Function) {
	GinkgoHelper()
	spec := deploymentOf(ctx, fn).Spec.Template.Spec.DeepCopy()
	spec.Containers[0].ImagePullPolicy = corev1.PullAlways
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pull-", Namespace: naming.DeployNamespace(fn.Namespace)}, Spec: *spec,
	}
	Expect(k8s.Create(ctx, pod)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, pod))).To(Succeed()) })
	Eventually(func() bool {
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready
	}).Should(BeTrue())
}

// platformServers are the demo's registry and object store.
type platformServers struct {
	host   string
	login  authn.Keychain
	images *image.Registry
	store  *objectstore.S3
}

func connectPlatform(ctx context.Context) *platformServers {
	GinkgoHelper()
	registry := readOperator(ctx).Registry
	p := &platformServers{host: registry.Host, login: registryLogin(ctx), store: connectStore(ctx)}
	var err error
	p.images, err = image.New(image.Config{Insecure: registry.Insecure, Keychain: p.login})
	Expect(err).NotTo(HaveOccurred())
	return p
}

func (p *platformServers) tags(ctx context.Context, namespace, name string) []string {
	GinkgoHelper()
	tags, err := p.images.Tags(ctx, naming.CodeRepository(p.host, namespace, name), 100)
	Expect(err).NotTo(HaveOccurred())
	return tags
}

func (p *platformServers) objects(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	keys := []string{}
	for object, err := range p.store.List(ctx, objectstore.CodePrefix(namespace)) {
		Expect(err).NotTo(HaveOccurred())
		keys = append(keys, object.Key)
	}
	return keys
}

// pull reads an image with all of its layers, each against its digest.
func (p *platformServers) pull(ctx context.Context, ref string) {
	GinkgoHelper()
	parsed, err := name.ParseReference(ref, name.Insecure)
	Expect(err).NotTo(HaveOccurred())
	img, err := remote.Image(parsed, remote.WithContext(ctx), remote.WithAuthFromKeychain(p.login))
	Expect(err).NotTo(HaveOccurred())
	layers, err := img.Layers()
	Expect(err).NotTo(HaveOccurred())
	for _, layer := range layers {
		content, err := layer.Compressed()
		Expect(err).NotTo(HaveOccurred())
		_, err = io.Copy(io.Discard, content)
		Expect(errors.Join(err, content.Close())).To(Succeed())
	}
}
