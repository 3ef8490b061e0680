// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

const (
	editTimeout = time.Minute
	// buildTimeout bounds a change that takes a build.
	buildTimeout = 5 * time.Minute
	readyWait    = 30 * time.Second
	// maxLog is how much of a pod's log is read.
	maxLog = 64 << 10
)

// changes collects the results of one kind of change, made over and over.
type changes struct {
	what               string
	answer, ready, old sample
	stages             *stages
	calls, wrong       int
	// earlyProbes counts the changes in which a readiness probe failed before the pod was ready.
	earlyProbes int
	// oldAfterNew counts the changes after which the old code answered once more.
	oldAfterNew int
}

func newChanges(what string) *changes {
	return &changes{
		what:   what,
		answer: sample{name: what + ": first new answer"}, ready: sample{name: what + ": Function Ready"},
		old: sample{name: what + ": last old answer"}, stages: newStages(),
	}
}

// changeTables are the summary of some kinds of change, and what became of the calls meanwhile.
func changeTables(block, title string) (summary, calls *table) {
	return &table{block: block, title: title, columns: sampleColumns("from apply to")},
		&table{
			block: block + "-calls", title: "The calls meanwhile, one every 20 ms",
			columns: []string{"runtime", "calls", "failed or wrong", "old answer after a new one", "probe failed first"},
		}
}

func (c *changes) addTo(summary, calls *table) {
	summary.rows = append(summary.rows, c.answer.row(), c.ready.row(), c.old.row())
	calls.add(c.what, itoa(c.calls), itoa(c.wrong), itoa(c.oldAfterNew), itoa(c.earlyProbes))
}

// measureEdit changes the code of a function and waits for the first answer of the new code.
func measureEdit(ctx context.Context, b *bench, runs int) ([]*table, error) {
	summary, calls := changeTables("edit", "A change of the code alone, from `kubectl apply`")
	tables := []*table{summary, calls}
	for _, p := range b.programs() {
		name := "edit-" + strings.ReplaceAll(p.runtime, ".", "-")
		c, err := b.change(ctx, p.runtime, runs, editTimeout, func(number int) *v1alpha1.Function {
			return p.function(name, number)
		})
		c.addTo(summary, calls)
		tables = append(tables, c.stages.table("edit-stages-"+p.runtime, "Where the time of a change goes, "+p.runtime))
		if err != nil {
			return tables, err
		}
	}
	return tables, nil
}

// measureDependency changes the code and the dependency file of a function, so that an image has to be built.
func measureDependency(ctx context.Context, b *bench, runs int) ([]*table, error) {
	summary, calls := changeTables("dependency", "A change of the dependency file, from `kubectl apply`")
	tables := []*table{summary, calls}
	for _, p := range b.programs() {
		if p.manifestFile == "" {
			continue
		}
		nonce := strconv.FormatInt(b.began.UnixNano(), 36)
		c, err := b.change(ctx, p.runtime, runs, buildTimeout, func(number int) *v1alpha1.Function {
			return p.dependentFunction("dependency-"+p.runtime, number, fmt.Sprintf("%s-%d", nonce, number))
		})
		c.addTo(summary, calls)
		tables = append(tables,
			c.stages.table("dependency-stages-"+p.runtime, "Where the time of a dependency change goes, "+p.runtime))
		if err != nil {
			return tables, err
		}
	}
	return tables, nil
}

// change deploys version(0) and then measures the changes to version(1), version(2) and so on.
func (b *bench) change(
	ctx context.Context, what string, runs int, timeout time.Duration, version func(number int) *v1alpha1.Function,
) (*changes, error) {
	c := newChanges(what)
	// Numbers differ from one invocation to the next, so that no image of an earlier one is found in the registry.
	base := int(b.began.Unix()%1_000_000) * maxRuns
	b.say("Deploying %s", version(base).Name)
	fn, err := b.deploy(ctx, version(base))
	if err != nil {
		return c, err
	}
	for i := range runs {
		if err := b.changeOnce(ctx, c, fn.Status.URL, version(base+i+1), base+i, timeout); err != nil {
			c.answer.failures++
			return c, err
		}
		b.say("%s, change %d of %d: new answer after %s", what, i+1, runs, showDuration(c.answer.values[i]))
		if err := b.settle(ctx, fn.Name); err != nil {
			return c, err
		}
	}
	return c, nil
}

// changeOnce measures one change. An error means that it makes no sense to go on.
func (b *bench) changeOnce(
	ctx context.Context, c *changes, url string, wanted *v1alpha1.Function, oldNumber int, timeout time.Duration,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	type outcome struct {
		polled
		err error
	}
	calls := make(chan outcome, 1)
	b.records.reset()
	began := b.now()
	go func() {
		p, err := poll(ctx, url, oldNumber, oldNumber+1, b.now)
		calls <- outcome{p, err}
	}()
	fn, err := b.apply(ctx, wanted)
	accepted := b.now()
	if err != nil {
		cancel()
		<-calls
		return err
	}
	answers := <-calls
	c.calls, c.wrong = c.calls+answers.calls, c.wrong+answers.wrong
	if answers.wrong > 0 {
		b.wrongAnswer("%d of %d calls during a change of %s failed, the first with: %v", answers.wrong, answers.calls,
			fn.Name, answers.firstWrong)
	}
	if answers.err != nil {
		return fmt.Errorf("%s: %w", fn.Name, answers.err)
	}
	s, err := b.waitMilestones(ctx, fn)
	if err != nil {
		return err
	}
	s.reached[sent], s.reached[answered] = accepted, answers.firstNew
	c.add(began, answers.polled, s)
	if b.opts.verbose {
		b.sayStages(began, s.reached)
	}
	return nil
}

// add adds the results of one change.
func (c *changes) add(began time.Time, answers polled, s seen) {
	c.answer.add(answers.firstNew.Sub(began))
	c.ready.add(s.reached[functionOK].Sub(began))
	c.old.add(answers.lastOld.Sub(began))
	c.stages.add(began, s.reached)
	if answers.lastOld.After(answers.firstNew) {
		c.oldAfterNew++
	}
	if s.earlyProbes > 0 {
		c.earlyProbes++
	}
}

func (b *bench) sayStages(began time.Time, reached timeline) {
	for _, m := range order() {
		if at, ok := reached[m]; ok {
			b.say("  %8s  %s", showDuration(at.Sub(began)), m)
		}
	}
}

// waitMilestones waits until the Function is Ready, which ends a change, and reads all milestones of it.
func (b *bench) waitMilestones(ctx context.Context, fn *v1alpha1.Function) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		s := milestones(b.records.all(), fn)
		if !s.reached[functionOK].IsZero() {
			if b.opts.cluster == clusterLocal { // elsewhere the node's clock is another
				at, ok := b.handlerLoaded(ctx, fn.Namespace, s.pod)
				s.reached.set(loaded, at, ok)
			}
			return s, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return s, fmt.Errorf("%s answers, but did not get Ready: %w", fn.Name, err)
		}
	}
}

// handlerLoaded reads from a pod's log when the watchdog had loaded the handler, by the node's clock.
func (b *bench) handlerLoaded(ctx context.Context, namespace, pod string) (time.Time, bool) {
	if pod == "" {
		return time.Time{}, false
	}
	limit := int64(maxLog)
	logs, err := b.kube.CoreV1().Pods(naming.DeployNamespace(namespace)).
		GetLogs(pod, &corev1.PodLogOptions{Timestamps: true, LimitBytes: &limit}).Stream(ctx)
	if err != nil {
		return time.Time{}, false
	}
	defer func() { _ = logs.Close() }()
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		if at, ok := loadedLine(lines.Text()); ok {
			return at, true
		}
	}
	return time.Time{}, false
}

// loadedLine returns the time of a log line that says that the handler was loaded.
func loadedLine(line string) (time.Time, bool) {
	stamp, text, _ := strings.Cut(line, " ")
	if !strings.Contains(text, "Loaded the handler") {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, stamp)
	return at, err == nil
}

func itoa(n int) string { return strconv.Itoa(n) }
