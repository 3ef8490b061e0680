//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/git/gittest"
)

var _ = Describe("A function in a git repository", func() {
	BeforeEach(func() {
		needsThisMachine("the git server")
	})

	It("follows what is pushed, and a broken push leaves the old version answering", func(ctx SpecContext) {
		host := startGitHost()
		host.Commit(map[string]string{"functions/hello/handler.py": v1, "README.md": "not a function"})
		fn := cloned(newNamespace(ctx), "follower", host.url)
		fn.Spec.Source.Git.Path = "functions/hello"
		fn.Spec.Source.Git.IntervalSeconds = new(int32)
		create(ctx, fn)
		answers(ctx, fn, "one")
		Expect(current(ctx, fn).Status.SourceRevision).To(Equal("main@sha1:" + host.Git("rev-parse", "HEAD")))

		By("pushing and asking at once")
		commit := host.Commit(map[string]string{"functions/hello/handler.py": strings.ReplaceAll(v1, "one", "two")})
		change(ctx, fn, func(f *v1alpha1.Function) {
			metav1.SetMetaDataAnnotation(&f.ObjectMeta, v1alpha1.AnnotationReconcileAt, "now")
		})
		answers(ctx, fn, "two")
		Expect(current(ctx, fn).Status.SourceRevision).To(Equal("main@sha1:" + commit))

		By("polling")
		change(ctx, fn, func(f *v1alpha1.Function) { *f.Spec.Source.Git.IntervalSeconds = 10 })
		host.Commit(map[string]string{"functions/hello/handler.py": strings.ReplaceAll(v1, "one", "three")})
		answers(ctx, fn, "three")
		waitReady(ctx, fn)

		By("pushing something broken, which the poll finds")
		host.Commit(map[string]string{"functions/hello/handler.py": "\n\ndef handle(:\n"})
		Eventually(ready(ctx, fn)).Should(Equal("False/HandlerLoadFailed"))
		Expect(condition(ctx, fn, v1alpha1.ConditionReady).Message).To(ContainSubstring("handler.py line 3"))
		Expect(get(ctx, fn).Body).To(Equal("three"))

		By("reverting")
		host.Git("revert", "--no-edit", "HEAD")
		host.Commit(nil)
		Eventually(ready(ctx, fn)).Should(Equal("True/Ready"))
		Expect(get(ctx, fn).Body).To(Equal("three"))
	})

	It("leaves nothing in the builds namespace when it is deleted", func(ctx SpecContext) {
		host := startGitHost()
		host.Commit(map[string]string{"handler.py": v1})
		fn := cloned(newNamespace(ctx), "patient-clone", host.url)
		create(ctx, fn)
		pods := &corev1.PodList{}
		ours := client.MatchingLabels{v1alpha1.LabelOwnerUID: string(current(ctx, fn).UID)}
		Expect(k8s.List(ctx, pods, client.InNamespace("sless-builds"), ours)).To(Succeed())
		Expect(pods.Items).To(HaveLen(1))
		Expect(k8s.Delete(ctx, fn)).To(Succeed())
		for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &corev1.SecretList{}} {
			Eventually(func() int {
				Expect(k8s.List(ctx, list, client.InNamespace("sless-builds"), ours)).To(Succeed())
				return lengthOf(list)
			}).Should(BeZero())
		}
	})

	It("may be private: a token opens it, and is shown nowhere", func(ctx SpecContext) {
		host := startGitHost()
		host.Commit(map[string]string{"handler.py": v1})
		host.http.Protect("git", "t0ken-right")
		namespace := newNamespace(ctx)
		fn := cloned(namespace, "private-clone", host.url)
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal("False/GitAuthFailed"))
		Expect(condition(ctx, fn, v1alpha1.ConditionReady).Message).To(ContainSubstring("secretName"))

		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "deploy", Namespace: namespace},
			StringData: map[string]string{"username": "git", "password": "t0ken-wrong"},
		}
		Expect(k8s.Create(ctx, secret)).To(Succeed())
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Git.SecretName = "deploy" })
		Eventually(func() string { return condition(ctx, fn, v1alpha1.ConditionReady).Message }).Should(ContainSubstring("check the Secret"))
		Expect(ready(ctx, fn)()).To(Equal("False/GitAuthFailed"))

		secret.StringData = map[string]string{"password": "t0ken-right"}
		Expect(k8s.Update(ctx, secret)).To(Succeed())
		waitReady(ctx, fn)
		answers(ctx, fn, "one")

		text := ""
		for _, c := range current(ctx, fn).Status.Conditions {
			text += c.Message
		}
		pods := &corev1.PodList{}
		Expect(k8s.List(ctx, pods, client.InNamespace("sless-builds"),
			client.MatchingLabels{v1alpha1.LabelOwnerUID: string(current(ctx, fn).UID)})).To(Succeed())
		Expect(pods.Items).NotTo(BeEmpty())
		for i := range pods.Items {
			text += pods.Items[i].String()
		}
		Expect(text).NotTo(ContainSubstring("t0ken"))
	})

	It("may be reached by SSH, from a server whose key is known", func(ctx SpecContext) {
		root := GinkgoT().TempDir()
		repository := gittest.NewRepository(GinkgoTB(), root, "shop.git")
		repository.Commit(map[string]string{"handler.py": v1})
		server := gittest.StartSSH(GinkgoTB(), nodeAddress+":0", root, "")
		other := gittest.StartSSH(GinkgoTB(), nodeAddress+":0", root, "")
		namespace := newNamespace(ctx)
		fn := cloned(namespace, "secure-clone", server.URL("shop.git"))
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal("False/GitSecretInvalid"))

		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "deploy", Namespace: namespace},
			Data:       map[string][]byte{"identity": server.Identity},
		}
		Expect(k8s.Create(ctx, secret)).To(Succeed())
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Git.SecretName = "deploy" })
		Eventually(func() string { return condition(ctx, fn, v1alpha1.ConditionReady).Message }).Should(ContainSubstring("known_hosts"))

		secret.Data["known_hosts"] = other.KnownHosts
		Expect(k8s.Update(ctx, secret)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal("False/GitHostKeyRefused"))

		secret.Data["known_hosts"] = server.KnownHosts
		Expect(k8s.Update(ctx, secret)).To(Succeed())
		waitReady(ctx, fn)
		answers(ctx, fn, "one")
	})

	DescribeTable("says what is wrong", func(ctx SpecContext, mutate func(*v1alpha1.GitSource), want, message string) {
		host := startGitHost()
		host.Commit(map[string]string{"handler.py": v1})
		fn := cloned(newNamespace(ctx), "wrong", host.url)
		mutate(fn.Spec.Source.Git)
		Expect(k8s.Create(ctx, fn)).To(Succeed())
		Eventually(ready(ctx, fn)).Should(Equal(want))
		Expect(condition(ctx, fn, v1alpha1.ConditionReady).Message).To(ContainSubstring(message))
	},
		Entry("no branch", func(s *v1alpha1.GitSource) { s.Revision = "nope" }, "False/GitRevisionNotFound", "nope"),
		Entry("no folder", func(s *v1alpha1.GitSource) { s.Path = "nope" }, "False/GitPathNotFound", "nope"),
		Entry("no repository", func(s *v1alpha1.GitSource) { s.URL += "x" }, "False/GitRepositoryNotFound", "spec.source.git.url"),
		Entry("no server", func(s *v1alpha1.GitSource) { s.URL = "http://" + nodeAddress + ":1/x" }, "False/GitUnreachable", "refused"),
	)
})

// gitHost is a repository behind a server on this machine.
type gitHost struct {
	*gittest.Repository
	http *gittest.HTTP
	url  string
}

func startGitHost() *gitHost {
	GinkgoHelper()
	root := GinkgoT().TempDir()
	host := &gitHost{
		Repository: gittest.NewRepository(GinkgoTB(), root, "shop.git"), http: gittest.NewHTTP(GinkgoTB(), root),
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", nodeAddress+":0")
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: host.http} //nolint:gosec // It lives as long as one story.
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	host.url = "http://" + listener.Addr().String() + "/shop.git"
	return host
}

func cloned(namespace, name, url string) *v1alpha1.Function {
	fn := function(namespace, name, "python3.11", nil)
	fn.Spec.Source = v1alpha1.FunctionSource{Git: &v1alpha1.GitSource{URL: url}}
	return fn
}

func fetchesOf(ctx context.Context, fn *v1alpha1.Function) []batchv1.Job {
	GinkgoHelper()
	jobs := &batchv1.JobList{}
	Expect(k8s.List(ctx, jobs, client.InNamespace("sless-builds"), client.MatchingLabels{
		v1alpha1.LabelOwnerUID: string(current(ctx, fn).UID), "app.kubernetes.io/component": "git-fetch",
	})).To(Succeed())
	return jobs.Items
}

func lengthOf(list client.ObjectList) int {
	GinkgoHelper()
	n := 0
	Expect(meta.EachListItem(list, func(runtime.Object) error { n++; return nil })).To(Succeed())
	return n
}
