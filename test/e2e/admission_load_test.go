//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/internal/testutil"
)

const (
	appliers = 8
	// appliesAround are judged before and after what happens to the webhook server.
	appliesAround = 200
)

// admissionLoad applies right and wrong objects without a pause and counts what the API server says.
type admissionLoad struct {
	namespace string

	mu sync.Mutex
	// accepted and refused are the right answers, wrong are wrong objects that were taken and right ones that a rule refused,
	// lost are applies that the API server could not have judged.
	accepted, refused int
	wrong, lost       []string
}

// startLoad applies until the returned function is called.
func startLoad(ctx context.Context, namespace string) (*admissionLoad, func()) {
	GinkgoHelper()
	l := &admissionLoad{namespace: namespace}
	ctx, cancel := context.WithCancel(ctx)
	group := sync.WaitGroup{}
	for i := range appliers {
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.applyOnce(ctx, fmt.Sprintf("a%d-%d", i, n))
			}
		})
	}
	return l, func() { cancel(); group.Wait() }
}

// applyOnce applies a right Function and a right FunctionJob on a dry run, so that nothing piles up, and a wrong Trigger.
func (l *admissionLoad) applyOnce(ctx context.Context, name string) {
	l.note(ctx, true, k8s.Create(ctx, python(l.namespace, name, v1), client.DryRunAll))
	job := testutil.MakeFunctionJob(name, l.namespace, "hello").Event(`{"n":1}`).Obj()
	l.note(ctx, true, k8s.Create(ctx, job, client.DryRunAll))
	l.note(ctx, false, k8s.Create(ctx, nightly(l.namespace, name).Cron("nonsense", "").Obj()))
}

func (l *admissionLoad) note(ctx context.Context, right bool, err error) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && right:
		l.accepted++
	case err == nil:
		l.wrong = append(l.wrong, "a wrong object was accepted")
	case strings.Contains(err.Error(), "failed calling webhook"):
		l.lost = append(l.lost, err.Error())
	case !right && strings.Contains(err.Error(), "spec.cron.schedule"):
		l.refused++
	default:
		l.wrong = append(l.wrong, err.Error())
	}
}

func (l *admissionLoad) judged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted + l.refused
}

// goOn waits until some more applies were judged.
func (l *admissionLoad) goOn() {
	GinkgoHelper()
	until := l.judged() + appliesAround
	Eventually(l.judged).Should(BeNumerically(">=", until))
}

// report prints what a user would have seen.
func (l *admissionLoad) report(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	AddReportEntry(what, fmt.Sprintf("%d accepted, %d refused by a rule, %d lost, %d wrong", l.accepted, l.refused, len(l.lost), len(l.wrong)))
	if len(l.lost) > 0 {
		AddReportEntry(what+": the first that was lost", l.lost[0])
	}
}

var _ = Describe("Applies while the webhook server restarts", Serial, func() {
	It("are all judged and none is lost when it is rolled out anew", func(ctx SpecContext) {
		load, stop := startLoad(ctx, newNamespace(ctx))
		load.goOn()
		for range 3 {
			rollManager(ctx)
			load.goOn()
		}
		stop()
		load.report("three roll-outs of one replica")
		Expect(load.wrong).To(BeEmpty())
		Expect(load.lost).To(BeEmpty())
	})

	It("are never judged wrongly when it is killed: with two replicas the other goes on, and what is lost is told so", func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { scaleManager(ctx, 1) })
		scaleManager(ctx, 2)
		load, stop := startLoad(ctx, newNamespace(ctx))
		load.goOn()
		killManager(ctx)
		load.goOn()
		scaleManager(ctx, 2)
		load.goOn()
		stop()
		load.report("one of two replicas killed")
		Expect(load.wrong).To(BeEmpty())
	})
})
