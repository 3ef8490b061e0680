// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/internal/slots"
)

const (
	rememberedVerdicts = 8192
	// rememberedFor is how long a definite verdict is taken from memory. After that the store is asked again.
	rememberedFor = 24 * time.Hour
	// softRememberedFor is how long a review without a verdict stands, so that callers that come again do not ask at once.
	// Code that is held back waits at least as long when the model is there again. A model that stays away is left alone by
	// rest.
	softRememberedFor = 10 * time.Second
	// defaultReadTimeout is Options.ReadTimeout. It is long enough for the largest archive over a slow line: about 300 MiB at
	// 1 MiB/s.
	defaultReadTimeout = 5 * time.Minute
	// auditedFor is how long a recurring refusal is not written into the log again.
	auditedFor = 24 * time.Hour
	// versionOfProtocol is raised when the fence or the form of the answer changes in a way that asks for new verdicts.
	versionOfProtocol = "1"
)

// Options are what a Gate works with.
type Options struct {
	// Store keeps verdicts beside the archives. Without one they are kept in memory only.
	Store objectstore.Store
	// Registry takes the metrics. It may be nil.
	Registry prometheus.Registerer
	// Log gets an audit line for each refusal, and why reviews gave no verdict.
	Log logr.Logger
	// Clock is the real one by default.
	Clock clock.PassiveClock
	// ReadTimeout bounds the reading of the code of one submission, 5 minutes by default.
	ReadTimeout time.Duration
}

// Gate applies the operator's policy around a CodeValidator: it keeps verdicts, asks once about the same code, and bounds
// what is asked at once. It is safe for concurrent use. A nil Gate lets everything pass.
type Gate struct {
	cfg       Config
	validator CodeValidator
	opt       Options
	metrics   *metrics
	slots     *slots.Slots
	rest      rest

	// remembered holds Verdicts by code and version, unread why code could not be read, by who submitted it and the same, and
	// audited the refusals that are in the log.
	remembered, unread, audited *cache.LRUExpireCache

	mu      sync.Mutex
	flights map[string]*flight
}

// flight is one review under way, for all who ask about the same code.
type flight struct {
	done    chan struct{}
	verdict Verdict
	err     error // of reading the code, which is the business of the one who began the flight
}

// New returns the gate for a configuration.
func New(cfg Config, opt Options) (*Gate, error) {
	if !cfg.Enabled {
		return NewGate(cfg, NoopValidator{}, opt), nil
	}
	llm, err := NewLLM(cfg)
	if err != nil {
		return nil, err
	}
	return NewGate(cfg, llm, opt), nil
}

// NewGate returns a gate around a validator.
func NewGate(cfg Config, v CodeValidator, opt Options) *Gate {
	if opt.Clock == nil {
		opt.Clock = clock.RealClock{}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.MaxParallel == 0 {
		cfg.MaxParallel = DefaultMaxParallel
	}
	if opt.ReadTimeout == 0 {
		opt.ReadTimeout = defaultReadTimeout
	}
	registry := opt.Registry
	if !cfg.Enabled {
		registry = nil
	}
	return &Gate{
		cfg: cfg, validator: v, opt: opt,
		metrics:    newMetrics(registry),
		slots:      slots.New(cfg.MaxParallel),
		remembered: cache.NewLRUExpireCacheWithClock(rememberedVerdicts, opt.Clock),
		unread:     cache.NewLRUExpireCacheWithClock(rememberedVerdicts, opt.Clock),
		audited:    cache.NewLRUExpireCacheWithClock(rememberedVerdicts, opt.Clock),
		flights:    map[string]*flight{},
	}
}

// Enabled says whether code is reviewed at all. Callers may spare themselves what a Submission needs when it is not.
func (g *Gate) Enabled() bool { return g != nil && g.cfg.Enabled }

// Review judges a submission. Each definite verdict is asked for once, whoever submits the code, and kept. A review that
// gave none is SoftFailed or Unavailable by the policy. Only an error of s.Files is returned as an error.
//
// Review waits for the model until ctx ends, and for at most twice the timeout. A review that has begun goes on
// without the caller, and its verdict is kept for the next.
func (g *Gate) Review(ctx context.Context, s Submission) (Verdict, error) {
	if !g.Enabled() {
		return Verdict{Outcome: Off}, nil
	}
	verdict, kept, err := g.review(ctx, s)
	if err != nil {
		return Verdict{}, err
	}
	verdict = g.applyPolicy(verdict)
	if verdict.Outcome != Pending {
		g.metrics.count(verdict.Outcome, kept)
	}
	if verdict.Outcome == Rejected {
		g.audit(s, verdict)
	}
	return verdict, nil
}

func (g *Gate) review(ctx context.Context, s Submission) (verdict Verdict, kept bool, err error) {
	if slices.Contains(g.cfg.SkipNamespaces, s.Namespace) {
		return Verdict{Outcome: Skipped, Message: "the operator of the platform has exempted the namespace"}, false, nil
	}
	version := g.version(s.Runtime)
	key := digits(s.Digest) + "/" + version
	if verdict, ok := g.recall(key); ok {
		return verdict, true, nil
	}
	if verdict, ok := g.recorded(ctx, s, version); ok {
		g.remembered.Add(key, verdict, rememberedFor)
		return verdict, true, nil
	}
	if s.KeptOnly {
		return Verdict{Outcome: Skipped, Message: "a dry run asks for no review"}, false, nil
	}
	if err, ok := g.unread.Get(s.object() + "/" + key); ok && s.Recurring {
		return Verdict{}, false, err.(error) //nolint:forcetypeassert // Nothing else is put there.
	}
	verdict, err = g.join(ctx, s, key, version)
	return verdict, false, err
}

// version tells verdicts apart that were given on other grounds.
func (g *Gate) version(runtime string) string {
	return naming.Key(versionOfProtocol, runtime, g.cfg.Model, g.cfg.Prompt)
}

func digits(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// recall returns a verdict from memory.
func (g *Gate) recall(key string) (Verdict, bool) {
	if v, ok := g.remembered.Get(key); ok {
		return v.(Verdict), true //nolint:forcetypeassert // Nothing else is put there.
	}
	return Verdict{}, false
}

// recorded returns a verdict from the store. A store that does not answer is as good as an empty one.
func (g *Gate) recorded(ctx context.Context, s Submission, version string) (Verdict, bool) {
	if g.opt.Store == nil {
		return Verdict{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	rec, err := readRecord(ctx, g.opt.Store, objectstore.ReviewKey(s.Namespace, s.Digest))
	if err != nil {
		g.opt.Log.Info("Looking for a kept verdict failed", "function", s.object(), "digest", s.Digest, "cause", err.Error())
		return Verdict{}, false
	}
	return rec.verdict(version)
}

// join waits for the review of the code, which it begins when nobody has.
func (g *Gate) join(ctx context.Context, s Submission, key, version string) (Verdict, error) {
	waitCtx, cancel := context.WithTimeout(ctx, 2*g.cfg.Timeout)
	defer cancel()
	for {
		verdict, f, isOwn, wait := g.enter(ctx, s, key, version)
		if f == nil && wait == nil {
			return verdict, nil
		}
		if f != nil {
			wait = f.done
		}
		if !await(waitCtx, wait, s.Recurring && !isOwn) {
			return g.gaveUp(s, f), nil
		}
		switch {
		case f == nil: // a slot became free
		case f.err == nil:
			return f.verdict, nil
		case isOwn:
			return Verdict{}, f.err
		}
		// Somebody else could not read the code. That says nothing about this caller's copy.
	}
}

// await waits for an event, and reports whether it came. A caller that comes again waits for nobody else: with much code under
// review, its workers would do nothing but wait.
func await(ctx context.Context, event <-chan struct{}, atOnce bool) bool {
	if atOnce {
		select {
		case <-event:
			return true
		default:
			return false
		}
	}
	select {
	case <-event:
		return true
	case <-ctx.Done():
		return false
	}
}

// enter returns a verdict that is there after all, or the flight to wait for, or a channel that tells when to try again.
func (g *Gate) enter(ctx context.Context, s Submission, key, version string) (Verdict, *flight, bool, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if verdict, ok := g.recall(key); ok {
		return verdict, nil, false, nil
	}
	if f, ok := g.flights[key]; ok {
		return Verdict{}, f, false, nil
	}
	if g.rest.resting(g.opt.Clock.Now()) {
		g.metrics.softFails.WithLabelValues(string(CauseResting)).Inc()
		return softFail(CauseResting), nil, false, nil
	}
	wait, ok := g.slots.Acquire(s.Namespace)
	if !ok {
		return Verdict{}, nil, false, wait
	}
	f := &flight{done: make(chan struct{})}
	g.flights[key] = f
	go g.fly(context.WithoutCancel(ctx), s, key, version, f)
	return Verdict{}, f, true, nil
}

// gaveUp is the answer to a caller whose time is up.
func (g *Gate) gaveUp(s Submission, f *flight) Verdict {
	if s.Recurring {
		return Verdict{Outcome: Pending, Message: "the code is being reviewed"}
	}
	cause := CauseTimeout
	if f == nil {
		cause = CauseBusy
	}
	g.metrics.softFails.WithLabelValues(string(cause)).Inc()
	return softFail(cause)
}

func softFail(cause Cause) Verdict { return Verdict{Outcome: SoftFailed, Message: sentences[cause]} }

// fly carries a review out, for whoever waits for it. It has its slot already, and gives it back after the time for reading
// the code and for one question at the latest: a store that stalls must not take the slots of all.
func (g *Gate) fly(ctx context.Context, s Submission, key, version string, f *flight) {
	judging, cancel := context.WithTimeout(ctx, g.opt.ReadTimeout+g.cfg.Timeout)
	f.verdict, f.err = g.judge(judging, s)
	cancel()
	switch {
	case f.err != nil && s.Recurring:
		// The one who comes again has rarely waited for that.
		g.unread.Add(s.object()+"/"+key, f.err, softRememberedFor)
	case f.err == nil:
		stands := rememberedFor
		if f.verdict.Outcome == SoftFailed {
			stands = softRememberedFor
		}
		g.remembered.Add(key, f.verdict, stands)
	}
	g.mu.Lock()
	delete(g.flights, key)
	g.mu.Unlock()
	g.slots.Release(s.Namespace)
	close(f.done)
	// Nobody waits for this. When it fails, a restart costs one more question.
	if f.err == nil && isDefinite(f.verdict.Outcome) {
		g.record(ctx, s, version, f.verdict)
	}
}

// judge reads the code and asks the validator.
func (g *Gate) judge(ctx context.Context, s Submission) (Verdict, error) {
	files, err := s.Files(ctx)
	if err == nil {
		files, err = Select(files)
	}
	if tooLarge, ok := errors.AsType[*TooLargeError](err); ok {
		return Verdict{Outcome: Skipped, Message: fmt.Sprintf(
			"its text files have %d bytes together, and at most %d are reviewed", tooLarge.Bytes, int64(MaxReviewBytes))}, nil
	}
	if err != nil {
		return Verdict{}, err
	}
	if len(files) == 0 {
		return Verdict{Outcome: Skipped, Message: "it has no files of a kind that is reviewed"}, nil
	}
	return g.ask(ctx, s, files), nil
}

// ask asks the validator.
func (g *Gate) ask(ctx context.Context, s Submission, files map[string]string) Verdict {
	g.metrics.inFlight.Inc()
	begun := g.opt.Clock.Now()
	safe, reason, err := g.validator.Validate(ctx, files, s.Runtime)
	now := g.opt.Clock.Now()
	g.metrics.inFlight.Dec()
	g.metrics.asked(now.Sub(begun))
	if err != nil {
		failed, ok := errors.AsType[*Failure](err)
		switch {
		case !ok && ctx.Err() != nil:
			failed = &Failure{Cause: CauseTimeout, Err: err}
		case !ok:
			failed = &Failure{Cause: CauseAnswer, Err: err}
		}
		g.rest.ended(failed.Cause, now)
		g.metrics.softFails.WithLabelValues(string(failed.Cause)).Inc()
		g.opt.Log.Info("A code review gave no verdict", "function", s.object(), "digest", s.Digest, "runtime", s.Runtime,
			"cause", string(failed.Cause), "details", cleanReason(failed.Err.Error()), "failurePolicy", string(g.cfg.FailurePolicy))
		return softFail(failed.Cause)
	}
	g.rest.ended("", now)
	if safe {
		return Verdict{Outcome: Accepted}
	}
	if reason = cleanReason(withoutCode(reason, files)); reason == "" {
		reason = noReason
	}
	return Verdict{Outcome: Rejected, Message: reason}
}

// record keeps a verdict beside the stored archive.
func (g *Gate) record(ctx context.Context, s Submission, version string, v Verdict) {
	if g.opt.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	key := objectstore.ReviewKey(s.Namespace, s.Digest)
	if err := writeRecord(ctx, g.opt.Store, key, version, v, g.opt.Clock.Now()); err != nil {
		g.opt.Log.Info("Keeping a verdict failed", "function", s.object(), "digest", s.Digest, "cause", err.Error())
	}
}

// applyPolicy decides about code without a verdict.
func (g *Gate) applyPolicy(v Verdict) Verdict {
	if v.Outcome == SoftFailed && g.cfg.FailurePolicy == Fail {
		v.Outcome = Unavailable
	}
	return v
}

// audit writes a refusal into the log: who, which code and why, and never the code.
func (g *Gate) audit(s Submission, v Verdict) {
	if s.Recurring {
		key := s.object() + "/" + s.Digest
		if _, done := g.audited.Get(key); done {
			return
		}
		g.audited.Add(key, true, auditedFor)
	}
	g.opt.Log.Info("Refusing code after a review", "audit", true, "function", s.object(), "digest", s.Digest,
		"runtime", s.Runtime, "model", g.cfg.Model, "reason", v.Message, "dryRun", s.KeptOnly)
}
