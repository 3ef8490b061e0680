//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// One kill tells several stories: a manager is killed a moment before a tick, during a build and at the beginning of a run.
// A second one waits, and leads when the lease of the killed one is over, after a quarter of a minute.
var _ = Describe("When the manager is killed", Serial, Ordered, func() {
	var (
		// Nothing happens to these.
		still, worked, fetched *v1alpha1.Function
		ended                  *v1alpha1.FunctionJob
		untouched              map[string]string
		// These are under way.
		called, built *v1alpha1.Function
		calling       *v1alpha1.Trigger
		due           *metav1.Time
		begun         *v1alpha1.FunctionJob
		callers       *crowd // nil without KEDA
		builds        = map[types.UID]bool{}
		killed        string
	)

	BeforeAll(func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { scaleManager(ctx, 1) })
		scaleManager(ctx, 2)
		namespace := newNamespace(ctx)
		still, worked, called = python(namespace, "still", v1), python(namespace, "worked", worker), python(namespace, "called", diary)
		quiet := []*v1alpha1.Function{still, worked, called}
		if !otherCluster() {
			host := startGitHost()
			host.Commit(map[string]string{"handler.py": v1})
			fetched = cloned(namespace, "fetched", host.url)
			fetched.Spec.Source.Git.IntervalSeconds = new(int32(3600))
			quiet = append(quiet, fetched)
		}
		scaled := scaling(namespace, "scaled", napper)
		if hasKEDA(ctx) {
			quiet = append(quiet, scaled)
		}
		for _, fn := range quiet {
			Expect(k8s.Create(ctx, fn)).To(Succeed())
		}
		for _, fn := range quiet {
			waitReady(ctx, fn)
		}
		ended, begun = jobOf(worked, "ended", `{"to":1}`), jobOf(worked, "begun", `{"to":2}`)
		Expect(k8s.Create(ctx, ended)).To(Succeed())
		Eventually(phase(ctx, ended)).Should(Equal("Succeeded 1"))

		if hasKEDA(ctx) {
			callers = startCrowd(context.WithoutCancel(ctx), scaled, 2, "")
			callers.busy()
		}

		By("waiting for the end of a minute: the tick comes while nobody leads")
		const before = 12 * time.Second
		now := time.Now()
		time.Sleep(now.Add(before).Truncate(time.Minute).Add(time.Minute - before).Sub(now))
		calling = everyMinute(namespace, "tick", called.Name, `{"n": 1}`)
		built = function(namespace, "built", "nodejs20", map[string]string{
			"package.json": `{"dependencies":{"slugify":"1.6.3"},"scripts":{"preinstall":"sleep 10"}}`,
			"handler.js":   "exports.handle = () => require('slugify')('picked up')",
		})
		Expect(k8s.Create(ctx, calling)).To(Succeed())
		Expect(k8s.Create(ctx, built)).To(Succeed())
		triggerIs(ctx, calling, v1alpha1.ConditionReady, "True/Ready")
		due = currentTrigger(ctx, calling).Status.NextScheduleTime
		Expect(due).NotTo(BeNil())
		Eventually(ready(ctx, built)).Should(Equal("Unknown/Building"))
		Eventually(func() int { return len(buildsOf(ctx, built)) }).Should(Equal(1))
		builds[buildsOf(ctx, built)[0].UID] = true
		untouched = state(ctx, still, fetched, ended)
		Expect(k8s.Create(ctx, begun)).To(Succeed())
		killed = leader(ctx)
		By(fmt.Sprintf("killing the leader %v before the tick", time.Until(due.Time).Round(time.Second)))
		killManager(ctx)
	})

	It("a build goes on, and is not doubled", func(ctx SpecContext) {
		Eventually(func() string {
			for _, job := range buildsOf(ctx, built) {
				builds[job.UID] = true
			}
			return ready(ctx, built)()
		}).WithTimeout(buildEnd).Should(Equal("True/Ready"))
		Expect(builds).To(HaveLen(1), "a second build was started")
		answers(ctx, built, "picked-up")
	})

	It("a run comes to its end", func(ctx SpecContext) {
		Eventually(phase(ctx, begun)).Should(Equal("Succeeded 1"))
		Expect(currentJob(ctx, begun).Status.Attempts).To(BeEquivalentTo(1))
	})

	It("a Trigger calls at the tick all the same, exactly once", func(ctx SpecContext) {
		calledOnce(ctx, calling, called, due)
		Expect(cronJobOf(ctx, calling).Generation).To(BeEquivalentTo(1), "the next manager finds its CronJob as it is to be")
	})

	It("no call of a function that scales is lost", func() {
		if callers == nil {
			Skip("KEDA is not installed")
		}
		callers.busy()
		callers.end(10)
	})

	It("nothing else is written: no function is fetched or built again, and what ran does not run again", func(ctx SpecContext) {
		waitManagers(ctx, 2)
		waitLeader(ctx)
		Expect(leader(ctx)).NotTo(Equal(killed))
		now := func() map[string]string { return state(ctx, still, fetched, ended) }
		Consistently(now, pause).Should(Equal(untouched))
	})
})

// state returns the versions of two Functions, the second may be nil, and a FunctionJob, and of what was made for them.
func state(ctx context.Context, still, fetched *v1alpha1.Function, ended *v1alpha1.FunctionJob) map[string]string {
	GinkgoHelper()
	versions := map[string]string{}
	note := func(kind string, obj client.Object) { versions[kind+" "+obj.GetName()] = obj.GetResourceVersion() }
	note("Function", current(ctx, still))
	note("Deployment", deploymentOf(ctx, still))
	if fetched != nil {
		note("Function", current(ctx, fetched))
		note("Deployment", deploymentOf(ctx, fetched))
		jobs := fetchesOf(ctx, fetched)
		for i := range jobs {
			note("Job", &jobs[i])
		}
	}
	note("FunctionJob", currentJob(ctx, ended))
	jobs := jobsOf(ctx, ended)
	for i := range jobs {
		note("Job", &jobs[i])
	}
	return versions
}
