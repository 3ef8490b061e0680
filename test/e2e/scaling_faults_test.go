//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
)

var _ = Describe("A function that cannot wake answers with the cause, as its condition does", SpecPriority(earlier), func() {
	BeforeEach(func(ctx SpecContext) { needsKEDA(ctx) })

	It("(its handler cannot be loaded)", func(ctx SpecContext) {
		needsThisMachine("who is asked for the mood")
		mood := startMood()
		fn := scaling(newNamespace(ctx), "moody", "import urllib.request\n\n"+
			"mood = urllib.request.urlopen('http://"+moodAddress+"').read().decode()\n"+
			"assert mood == 'good', mood\n\n\ndef handle(event, context):\n    return 'fine'\n")
		create(ctx, fn)
		asleep(ctx, fn)
		mood.Store("bad")
		refused := get(ctx, fn)
		Expect(refused.Status).To(Equal(http.StatusServiceUnavailable), refused.Body)
		Expect(refused.Body).To(And(ContainSubstring("HandlerLoadFailed"), ContainSubstring("handler.py line 4")))
		Eventually(ready(ctx, fn)).Should(Equal("False/HandlerLoadFailed"))
		mood.Store("good")
		By("waiting until KEDA gives up: the next call wakes it")
		Eventually(func() string { return get(ctx, fn).Body }).WithTimeout(buildEnd).Should(Equal("fine"))
	})

	It("(its image is gone from the registry and the node)", func(ctx SpecContext) {
		needsThisMachine("what deletes the image from the node")
		origin := python(newNamespace(ctx), "origin", napper+"# Nobody else has this image.\n")
		create(ctx, origin)
		registry := connectPlatform(ctx)
		// What sless has built itself it pushes again, so this is somebody's own image.
		fn := scaling(origin.Namespace, "lost", "")
		fn.Spec.Source = v1alpha1.FunctionSource{Image: &v1alpha1.ImageSource{
			Ref: registry.copy(ctx, current(ctx, origin).Status.Image, "e2e/"+origin.Namespace),
		}}
		create(ctx, fn)
		asleep(ctx, fn)
		Expect(registry.images.Delete(ctx, fn.Spec.Source.Image.Ref)).To(Succeed())
		deleteFromNode(ctx, fn.Spec.Source.Image.Ref)
		refused := get(ctx, fn)
		Expect(refused.Status).To(Equal(http.StatusServiceUnavailable), refused.Body)
		Expect(refused.Body).To(ContainSubstring(v1alpha1.ReasonImagePullFailed))
		Expect(ready(ctx, fn)()).To(Equal("False/ImagePullFailed"))
	})
})

var _ = Describe("A part of KEDA", Ordered, SpecPriority(early), func() {
	BeforeEach(func(ctx SpecContext) { breaksKEDA(ctx) })

	It("restarts and no call is lost", func(ctx SpecContext) {
		fn := scaling(newNamespace(ctx), "napper", napper)
		create(ctx, fn)
		c := startCrowd(ctx, fn, 4, "")
		c.busy()
		for _, part := range [][2]string{
			{kedaNamespace, kedaInterceptor}, {kedaNamespace, kedaScaler}, {kedaNamespace, kedaOperator},
		} {
			By("restarting " + part[1])
			restart(ctx, part[0], part[1])
			c.busy()
		}
		c.end(10)
	})

	DescribeTable("is down: replicas that run answer, calls that should wake one are told why not, and so is the Function",
		func(ctx SpecContext, part, culprit string) {
			namespace := newNamespace(ctx)
			idle, running := scaling(namespace, "idle", napper), scaling(namespace, "running", napper)
			running.Spec.Scaling.MinReplicas = ptr.To[int32](1)
			Expect(k8s.Create(ctx, running)).To(Succeed())
			create(ctx, idle)
			waitReady(ctx, running)
			asleep(ctx, idle)
			Eventually(scalingActive(ctx, running)).Should(Equal("True/Scaling"))

			c := startCrowd(ctx, running, 1, "")
			mend := switchOff(ctx, part)
			refused := get(ctx, idle)
			// An interceptor that is stopping holds the call until its time is over, one that is gone refuses it.
			Expect(refused.Status).To(BeElementOf(http.StatusGatewayTimeout, http.StatusBadGateway), refused.Body)
			Expect(refused.Body).To(And(MatchRegexp("StartTimeout|ConnectFailed"), ContainSubstring(culprit)))
			Eventually(ready(ctx, idle)).Should(Equal("False/AutoscalerFailed"))
			for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionScalingActive} {
				Expect(condition(ctx, idle, kind).Message).To(ContainSubstring(culprit))
			}
			Expect(ready(ctx, running)()).To(Equal("True/Ready"))
			mend()
			c.busy()
			c.end(10)
			Eventually(func() string { return get(ctx, idle).Body }).Should(Equal("awake"))
			Eventually(ready(ctx, idle)).Should(Equal("True/Ready"))
		},
		Entry("operator", kedaOperator, "KEDA's operator"),
		Entry("scaler", kedaScaler, "the scaler of KEDA's HTTP add-on"),
		Entry("interceptor", kedaInterceptor, "the interceptor of KEDA's HTTP add-on"),
	)
})

// moodAddress is where a function of a story asks how it feels.
const moodAddress = nodeAddress + ":18097"

// startMood answers with a word that the story can change.
func startMood() *atomic.Value {
	GinkgoHelper()
	mood := &atomic.Value{}
	mood.Store("good")
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", moodAddress)
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // It lives as long as one story.
		_, _ = fmt.Fprint(w, mood.Load())
	})}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	return mood
}

// nodeContainerd is where the local cluster's containerd listens.
const nodeContainerd = "/var/lib/sless-cluster/run/containerd.sock"

// copy copies an image into another repository of the demo's registry, and returns its name by digest.
func (p *platformServers) copy(ctx context.Context, ref, repository string) string {
	GinkgoHelper()
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(p.login)}
	from, err := name.ParseReference(ref, name.Insecure)
	Expect(err).NotTo(HaveOccurred())
	img, err := remote.Image(from, options...)
	Expect(err).NotTo(HaveOccurred())
	digest, err := img.Digest()
	Expect(err).NotTo(HaveOccurred())
	to, err := name.NewDigest(p.host+"/"+repository+"@"+digest.String(), name.Insecure)
	Expect(err).NotTo(HaveOccurred())
	Expect(remote.Write(to, img, options...)).To(Succeed())
	return to.String()
}

// deleteFromNode deletes an image from the local cluster's node, as the kubelet does when the disk is full.
func deleteFromNode(ctx context.Context, ref string) {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "ctr", "--address", nodeContainerd, "--namespace", "k8s.io",
		"images", "remove", "--sync", ref).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
}
