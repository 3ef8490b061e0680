// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/builder"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/git/gittest"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/internal/testutil"
)

// gitHost is a repository behind a server.
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
	server := httptest.NewServer(host.http)
	DeferCleanup(server.Close)
	host.url = server.URL + "/shop.git"
	return host
}

// fetchesOf returns the fetches of a Function that are not being deleted.
func fetchesOf(ctx context.Context, fn *v1alpha1.Function) []batchv1.Job {
	GinkgoHelper()
	jobs := &batchv1.JobList{}
	Expect(k8sClient.List(ctx, jobs, client.InNamespace("sless-builds"), client.MatchingLabels{
		v1alpha1.LabelOwnerUID: string(get(ctx, fn).UID), "app.kubernetes.io/component": resources.ComponentGit,
	})).To(Succeed())
	var left []batchv1.Job
	for i := range jobs.Items {
		if jobs.Items[i].DeletionTimestamp.IsZero() {
			left = append(left, jobs.Items[i])
		}
	}
	return left
}

// pendingFetch waits for a fetch of the Function that was let go and has not ended.
func pendingFetch(ctx context.Context, fn *v1alpha1.Function) *batchv1.Job {
	GinkgoHelper()
	var found *batchv1.Job
	Eventually(func() bool {
		for _, job := range fetchesOf(ctx, fn) {
			if len(job.Status.Conditions) == 0 && !ptr.Deref(job.Spec.Suspend, false) {
				found = &job
				return true
			}
		}
		return false
	}).Should(BeTrue(), "no fetch was started")
	return found
}

// runFetch plays the parts of Job controller, scheduler and kubelet for the next fetch: it runs the program of the pod with
// the pod's arguments, variables and files.
func runFetch(ctx context.Context, fn *v1alpha1.Function) {
	GinkgoHelper()
	job := pendingFetch(ctx, fn)
	container := job.Spec.Template.Spec.Containers[0]
	scratch, credentials := GinkgoT().TempDir(), GinkgoT().TempDir()
	for _, volume := range job.Spec.Template.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		secret := &corev1.Secret{}
		Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: volume.Secret.SecretName}, secret)).To(Succeed())
		Expect(metav1.IsControlledBy(secret, job)).To(BeTrue())
		for _, item := range volume.Secret.Items {
			Expect(os.WriteFile(filepath.Join(credentials, item.Path), secret.Data[item.Key], 0o600)).To(Succeed())
		}
	}
	log := filepath.Join(scratch, "termination-log")
	args := []string{"--termination-log=" + log}
	for _, arg := range container.Args {
		args = append(args, strings.NewReplacer("=/scratch", "="+scratch, "=/git-credentials", "="+credentials).Replace(arg))
	}
	var stderr bytes.Buffer
	program := builder.Program{
		Getenv: platformS.storeVariable, Stderr: &stderr, Backoff: wait.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 2},
	}
	code := program.Run(ctx, args)
	message, err := os.ReadFile(log)
	Expect(err).NotTo(HaveOccurred())
	endFetch(ctx, job, int32(code), string(message)) //nolint:gosec // It is 0 or 1.
}

// endFetch makes the pod of a fetch, and ends both.
func endFetch(ctx context.Context, job *batchv1.Job, code int32, message string) {
	GinkgoHelper()
	labels := map[string]string{batchv1.JobNameLabel: job.Name}
	maps.Copy(labels, job.Spec.Template.Labels)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: job.Name + "-", Namespace: job.Namespace, Labels: labels, Annotations: job.Spec.Template.Annotations,
		},
		Spec: job.Spec.Template.Spec,
	}
	Expect(k8sClient.Create(ctx, pod)).To(Succeed())
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: resources.GitClone, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message},
	}}}
	Expect(k8sClient.Status().Update(ctx, pod)).To(Succeed())
	kinds := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if code != 0 {
		kinds = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
	}
	Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
	now := metav1.Now()
	job.Status.StartTime = &now
	for _, kind := range kinds {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now, LastProbeTime: now, Reason: "BackoffLimitExceeded",
		})
		if kind == batchv1.JobComplete {
			job.Status.CompletionTime = &now
		}
	}
	Expect(k8sClient.Status().Update(ctx, job)).To(Succeed())
}

func conditionMessage(ctx context.Context, fn *v1alpha1.Function, kind string) string {
	GinkgoHelper()
	c := meta.FindStatusCondition(get(ctx, fn).Status.Conditions, kind)
	Expect(c).NotTo(BeNil())
	return c.Message
}

func ask(ctx context.Context, fn *v1alpha1.Function, value string) {
	GinkgoHelper()
	change(ctx, fn, func(f *v1alpha1.Function) {
		metav1.SetMetaDataAnnotation(&f.ObjectMeta, v1alpha1.AnnotationReconcileAt, value)
	})
}

var _ = Describe("A Function from a git repository", func() {
	It("is fetched, polled for new commits, and remembers what it has", func(ctx SpecContext) {
		host := startGitHost()
		first := host.Commit(map[string]string{"fn/handler.py": pythonHandler})
		fn := testutil.MakeFunction("cloned", newNamespace(ctx)).Git(host.url).Obj()
		fn.Spec.Source.Git.Path = "fn"
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "Unknown/Fetching")
		runFetch(ctx, fn)
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		current := get(ctx, fn)
		Expect(current.Status.SourceRevision).To(Equal("main@sha1:" + first))
		Expect(conditionMessage(ctx, fn, "SourceReady")).To(And(ContainSubstring(first), ContainSubstring(current.Status.SourceDigest)))
		Expect(fetchesOf(ctx, fn)).To(HaveLen(1), "the next poll is due in an hour")

		By("asking for a look while nothing changed: nothing is written")
		generation := deploymentOf(ctx, fn).Generation
		asked := get(ctx, fn)
		poke(ctx, asked)
		Eventually(func() int { return len(fetchesOf(ctx, fn)) }).Should(Equal(2))
		packs := host.http.Packs.Load()
		runFetch(ctx, fn)
		Expect(host.http.Packs.Load()).To(Equal(packs), "a commit that is known was fetched")
		Eventually(func() int { return len(fetchesOf(ctx, fn)) }).Should(Equal(1), "the older Job was not removed")
		Consistently(func() string { return get(ctx, fn).ResourceVersion }, "1s").Should(Equal(asked.ResourceVersion))
		Expect(deploymentOf(ctx, fn).Generation).To(Equal(generation))

		By("pushing, with a short interval")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Git.IntervalSeconds = ptr.To[int32](10) })
		second := host.Commit(map[string]string{"fn/handler.py": pythonHandler + "# changed\n"})
		runFetch(ctx, fn)
		Eventually(func() string { return get(ctx, fn).Status.SourceRevision }).Should(Equal("main@sha1:" + second))
		Eventually(func() int64 { return deploymentOf(ctx, fn).Generation }).Should(BeNumerically(">", generation))
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")

		By("naming the commit: it is fetched once more, for another name, and then never again")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Git.Revision = second })
		runFetch(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		Eventually(func() string { return get(ctx, fn).Status.SourceRevision }).Should(Equal("sha1:" + second))
		lookAgain(ctx, FunctionController, get(ctx, fn))
		Consistently(func() int { return len(fetchesOf(ctx, fn)) }, "2s").Should(BeNumerically("<=", 1))

		By("deleting: the fetches go too")
		jobs := fetchesOf(ctx, fn)
		Expect(k8sClient.Delete(ctx, fn)).To(Succeed())
		Eventually(func() bool { return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(fn), fn)) }).Should(BeTrue())
		for i := range jobs {
			err := k8sClient.Get(ctx, client.ObjectKeyFromObject(&jobs[i]), &jobs[i])
			Expect(apierrors.IsNotFound(err) || jobs[i].DeletionTimestamp != nil).To(BeTrue())
		}
	})

	It("needs the right Secret, and looks again when that changes", func(ctx SpecContext) {
		host := startGitHost()
		host.Commit(map[string]string{"handler.py": pythonHandler})
		host.http.Protect("git", "t0ken-right")
		namespace := newNamespace(ctx)
		fn := testutil.MakeFunction("private", namespace).Git(host.url).Obj()
		fn.Spec.Source.Git.SecretName = "deploy"
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		readyIs(ctx, fn, "False/ConfigMissing")
		Expect(fetchesOf(ctx, fn)).To(BeEmpty())

		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "deploy", Namespace: namespace}}
		secret.StringData = map[string]string{"user": "git"}
		Expect(k8sClient.Create(ctx, secret)).To(Succeed())
		readyIs(ctx, fn, "False/GitSecretInvalid")

		secret.StringData = map[string]string{"token": "t0ken-wrong"}
		Expect(k8sClient.Update(ctx, secret)).To(Succeed())
		runFetch(ctx, fn)
		readyIs(ctx, fn, "False/GitAuthFailed")
		Expect(meta.IsStatusConditionTrue(get(ctx, fn).Status.Conditions, "Stalled")).To(BeTrue())

		secret.StringData = map[string]string{"token": "t0ken-right\n"}
		Expect(k8sClient.Update(ctx, secret)).To(Succeed())
		runFetch(ctx, fn)
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")

		By("taking the Secret away: the version that runs is looked after as before, and the fault is told")
		Expect(k8sClient.Delete(ctx, secret)).To(Succeed())
		readyIs(ctx, fn, "False/ConfigMissing")
		Eventually(conditionOf(ctx, fn, "SourceReady")).Should(Equal("False/ConfigMissing"))
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Replicas = ptr.To[int32](2) })
		Eventually(func() int32 { return *deploymentOf(ctx, fn).Spec.Replicas }).Should(BeEquivalentTo(2))
		Expect(meta.IsStatusConditionTrue(get(ctx, fn).Status.Conditions, "Available")).To(BeTrue())

		text := ""
		for _, c := range get(ctx, fn).Status.Conditions {
			text += c.Message
		}
		for _, job := range fetchesOf(ctx, fn) {
			text += job.String()
		}
		Expect(text).NotTo(ContainSubstring("t0ken"))
	})

	It("says what is wrong with a repository, and keeps the version that runs", func(ctx SpecContext) {
		host := startGitHost()
		host.Commit(map[string]string{"handler.py": pythonHandler})
		fn := testutil.MakeFunction("faulty", newNamespace(ctx)).Git(host.url).Obj()
		fn.Spec.Source.Git.IntervalSeconds = ptr.To[int32](0)
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		runFetch(ctx, fn)
		rollOut(ctx, fn)
		readyIs(ctx, fn, "True/Ready")
		generation := deploymentOf(ctx, fn).Generation
		for i, fault := range []struct {
			mutate func(*v1alpha1.GitSource)
			want   string
		}{
			{func(s *v1alpha1.GitSource) { s.Revision = "nope" }, "False/GitRevisionNotFound"},
			{func(s *v1alpha1.GitSource) { s.Revision, s.Path = "", "nope" }, "False/GitPathNotFound"},
			{func(s *v1alpha1.GitSource) { s.Path, s.URL = "", host.url+"x" }, "False/GitRepositoryNotFound"},
			{func(s *v1alpha1.GitSource) { s.URL = "http://127.0.0.1:1/x" }, "False/GitUnreachable"},
		} {
			change(ctx, fn, func(f *v1alpha1.Function) { fault.mutate(f.Spec.Source.Git) })
			runFetch(ctx, fn)
			readyIs(ctx, fn, fault.want)
			Expect(meta.IsStatusConditionTrue(get(ctx, fn).Status.Conditions, "Available")).To(BeTrue(), "fault %d", i)
		}
		Expect(meta.IsStatusConditionTrue(get(ctx, fn).Status.Conditions, "Reconciling")).To(BeTrue())
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Git.URL = "git@127.0.0.1:shop.git" })
		readyIs(ctx, fn, "False/GitSecretInvalid")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Git.URL = "https://me:pass@127.0.0.1/shop.git" })
		readyIs(ctx, fn, "False/SourceInvalid")
		Expect(deploymentOf(ctx, fn).Generation).To(Equal(generation))

		By("going back: Ready without a rollout, and without a fetch, since the status remembers this source")
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Source.Git.URL = host.url })
		readyIs(ctx, fn, "True/Ready")
		Expect(deploymentOf(ctx, fn).Generation).To(Equal(generation))

		By("a poll that fails: the code that is known stays the wanted one")
		ask(ctx, fn, "now")
		endFetch(ctx, pendingFetch(ctx, fn), 1, "GitUnreachable: no route to host")
		Eventually(conditionOf(ctx, fn, "SourceReady")).Should(Equal("True/GitUnreachable"))
		Expect(conditionMessage(ctx, fn, "SourceReady")).To(ContainSubstring("no route to host"))
		readyIs(ctx, fn, "True/Ready")
		ask(ctx, fn, "later")
		endFetch(ctx, pendingFetch(ctx, fn), 1, "GitRevisionNotFound: the branch is gone")
		readyIs(ctx, fn, "False/GitRevisionNotFound")
		Expect(meta.IsStatusConditionTrue(get(ctx, fn).Status.Conditions, "Built")).To(BeTrue())

		By("another source: the revision is forgotten")
		change(ctx, fn, func(f *v1alpha1.Function) {
			f.Spec.Source = v1alpha1.FunctionSource{Inline: &v1alpha1.InlineSource{Files: map[string]string{"handler.py": pythonHandler}}}
		})
		readyIs(ctx, fn, "True/Ready")
		Expect(get(ctx, fn).Status.SourceRevision).To(BeEmpty())
		Eventually(func() int { return len(fetchesOf(ctx, fn)) }).Should(BeZero(), "the record of the repository stays")
	})

	It("comes before a queue of fetches of another namespace", func(ctx SpecContext) {
		host := startGitHost()
		host.Commit(map[string]string{"handler.py": pythonHandler})
		hog, shop := newNamespace(ctx), newNamespace(ctx)
		fns := []*v1alpha1.Function{}
		for i, namespace := range []string{hog, hog, hog, hog, shop} { // two run at once
			fn := testutil.MakeFunction(fmt.Sprintf("fair-%d", i), namespace).Git(host.url).Obj()
			Expect(k8sClient.Create(ctx, fn)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(k8sClient.Delete(ctx, fn)).To(Succeed()) })
			Eventually(func() int { return len(fetchesOf(ctx, fn)) }).Should(Equal(1))
			fns = append(fns, fn)
		}
		suspended := func(fn *v1alpha1.Function) func() bool {
			return func() bool { return ptr.Deref(fetchesOf(ctx, fn)[0].Spec.Suspend, false) }
		}
		for _, fn := range fns[2:] {
			Expect(suspended(fn)()).To(BeTrue(), fn.Name)
			Eventually(func() string { return conditionMessage(ctx, fn, "SourceReady") }).Should(ContainSubstring("2 run at once"))
		}
		for i, next := range []int{4, 2, 3} {
			runFetch(ctx, fns[[]int{0, 1, 4}[i]])
			Eventually(suspended(fns[next])).Should(BeFalse(), "fetch of function %d", next)
		}
		runFetch(ctx, fns[2])
		runFetch(ctx, fns[3])
	})

	It("keeps no place in the queue of fetches while its Secret is missing", func(ctx SpecContext) {
		host := startGitHost()
		host.Commit(map[string]string{"handler.py": pythonHandler})
		namespace := newNamespace(ctx)
		fns := []*v1alpha1.Function{}
		for i := range 4 {
			fn := testutil.MakeFunction(fmt.Sprintf("queue-%d", i), namespace).Git(host.url).Obj()
			Expect(k8sClient.Create(ctx, fn)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(k8sClient.Delete(ctx, fn)).To(Succeed()) })
			Eventually(func() int { return len(fetchesOf(ctx, fn)) }).Should(Equal(1))
			fns = append(fns, fn)
		}
		change(ctx, fns[2], func(f *v1alpha1.Function) { f.Spec.Source.Git.SecretName = "none" })
		readyIs(ctx, fns[2], "False/ConfigMissing")
		Eventually(func() int { return len(fetchesOf(ctx, fns[2])) }).Should(BeZero())
		runFetch(ctx, fns[0])
		runFetch(ctx, fns[3])
		runFetch(ctx, fns[1])
	})

	It("is fetched again when its code is lost", func(ctx SpecContext) {
		host := startGitHost()
		host.Commit(map[string]string{"handler.py": pythonHandler + "# lost\n"})
		fn := testutil.MakeFunction("lost", newNamespace(ctx)).Git(host.url).Obj()
		Expect(k8sClient.Create(ctx, fn)).To(Succeed())
		runFetch(ctx, fn)
		readyIs(ctx, fn, "Unknown/RollingOut")
		digest := get(ctx, fn).Status.SourceDigest
		key := objectstore.CodeKey(fn.Namespace, digest)
		Expect(platformS.store.Delete(ctx, key)).To(Succeed())
		// Another entrypoint makes the manager read the code again.
		change(ctx, fn, func(f *v1alpha1.Function) { f.Spec.Entrypoint = "handler.other" })
		readyIs(ctx, fn, "Unknown/Fetching")
		runFetch(ctx, fn)
		readyIs(ctx, fn, "Unknown/RollingOut")
		Expect(get(ctx, fn).Status.SourceDigest).To(Equal(digest))
		_, err := platformS.store.Stat(ctx, key)
		Expect(err).NotTo(HaveOccurred())
	})
})

// storeVariable is the environment of a pod that speaks to the test's object store.
func (p *testPlatform) storeVariable(name string) string {
	return map[string]string{
		"S3_ENDPOINT": p.storeHost, "S3_REGION": "us-east-1", "S3_BUCKET": "sless", "S3_PATH_STYLE": "true", "S3_INSECURE": "true",
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
	}[name]
}
