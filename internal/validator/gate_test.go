// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sync/errgroup"
	testclock "k8s.io/utils/clock/testing"

	"github.com/naeel/sless/internal/objectstore"
	slesstest "github.com/naeel/sless/internal/testutil"
)

// startStore serves an object store in this process.
func startStore(t testing.TB) (store *objectstore.S3, stop func()) {
	t.Helper()
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(server.Close)
	store, err := objectstore.New(objectstore.Config{
		Endpoint: strings.TrimPrefix(server.URL, "http://"), Bucket: "sless", PathStyle: true, Insecure: true,
		AccessKey: "key", SecretKey: "secret",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store, server.Close
}

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text = append(l.text, args)
	}, funcr.Options{})
}

func (l *lines) with(part string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.text {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

const codeDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// submission is code that holds the word.
func submission(word string) Submission {
	return Submission{
		Namespace: "shop", Name: "cart", Runtime: "python3.11", Digest: "sha256:" + word,
		Files: func(context.Context) (map[string]string, error) {
			return map[string]string{"handler.py": "x = '" + word + "'", "logo.png": "binary"}, nil
		},
	}
}

func review(t testing.TB, g *Gate, s Submission) Verdict {
	t.Helper()
	v, err := g.Review(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func newGate(t testing.TB, cfg Config, opt Options) *Gate {
	t.Helper()
	g, err := New(cfg, opt)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestOff(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	for name, g := range map[string]*Gate{"nil": nil, "not enabled": newGate(t, Config{}, Options{Registry: registry})} {
		v := review(t, g, Submission{Files: func(context.Context) (map[string]string, error) { return nil, errors.New("read") }})
		if v.Outcome != Off || g.Enabled() || !v.Passes() || v.Warning() != "" {
			t.Errorf("%s: got %+v", name, v)
		}
	}
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("there are metrics of what is off: %v, %v", families, err)
	}
	if safe, _, err := (NoopValidator{}).Validate(t.Context(), nil, ""); !safe || err != nil {
		t.Errorf("NoopValidator: %v, %v", safe, err)
	}
}

func TestReview(t *testing.T) {
	t.Parallel()
	unread := errors.New("the disk is on fire")
	tests := map[string]struct {
		reply     slesstest.ModelReply
		cfg       func(*Config)
		files     map[string]string
		filesErr  error
		tweak     func(*Submission)
		want      Verdict
		wantErr   error
		wantCalls int
	}{
		"accepts": {reply: slesstest.ModelAccepts(), want: Verdict{Outcome: Accepted}, wantCalls: 1},
		"rejects": {reply: slesstest.ModelRejects("mines coins"), want: Verdict{Outcome: Rejected, Message: "mines coins"}, wantCalls: 1},
		"rejects without a reason": {
			reply: slesstest.ModelRejects(" "), want: Verdict{Outcome: Rejected, Message: noReason}, wantCalls: 1,
		},
		"fails softly": {
			reply: slesstest.ModelFails(500), want: Verdict{Outcome: SoftFailed, Message: "the reviewer answered with an error"}, wantCalls: 1,
		},
		"fails hard": {
			reply: slesstest.ModelFails(500), cfg: func(c *Config) { c.FailurePolicy = Fail },
			want: Verdict{Outcome: Unavailable, Message: "the reviewer answered with an error"}, wantCalls: 1,
		},
		"exempt": {
			reply: slesstest.ModelRejects("x"), cfg: func(c *Config) { c.SkipNamespaces = []string{"ops", "shop"} },
			want: Verdict{Outcome: Skipped, Message: "the operator of the platform has exempted the namespace"},
		},
		"too large": {
			files: map[string]string{"a.py": strings.Repeat("x", MaxReviewBytes+1)},
			want:  Verdict{Outcome: Skipped, Message: "its text files have 102401 bytes together, and at most 102400 are reviewed"},
		},
		"too large, Fail": {
			files: map[string]string{"a.py": strings.Repeat("x", MaxReviewBytes+1)}, cfg: func(c *Config) { c.FailurePolicy = Fail },
			want: Verdict{Outcome: Skipped, Message: "its text files have 102401 bytes together, and at most 102400 are reviewed"},
		},
		"too large by its reader": {
			filesErr: fmt.Errorf("reading: %w", &TooLargeError{Bytes: 1 << 20}),
			want:     Verdict{Outcome: Skipped, Message: "its text files have 1048576 bytes together, and at most 102400 are reviewed"},
		},
		"nothing to review": {
			files: map[string]string{"logo.png": "x"}, want: Verdict{Outcome: Skipped, Message: "it has no files of a kind that is reviewed"},
		},
		"dry run": {
			reply: slesstest.ModelAccepts(), tweak: func(s *Submission) { s.KeptOnly = true },
			want: Verdict{Outcome: Skipped, Message: "a dry run asks for no review"},
		},
		"unreadable": {filesErr: unread, wantErr: unread},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, cfg := startModel(t, tc.reply)
			if tc.cfg != nil {
				tc.cfg(&cfg)
			}
			s := submission("hello")
			if tc.files != nil || tc.filesErr != nil {
				s.Files = func(context.Context) (map[string]string, error) { return tc.files, tc.filesErr }
			}
			if tc.tweak != nil {
				tc.tweak(&s)
			}
			got, err := newGate(t, cfg, Options{}).Review(t.Context(), s)
			if !errors.Is(err, tc.wantErr) || got != tc.want {
				t.Errorf("got %+v, %v, want %+v, %v", got, err, tc.want, tc.wantErr)
			}
			if calls := len(model.Calls()); calls != tc.wantCalls {
				t.Errorf("the model was asked %d times, want %d", calls, tc.wantCalls)
			}
		})
	}
}

func TestVerdictWords(t *testing.T) {
	t.Parallel()
	tests := map[Outcome]struct{ passes, warns bool }{
		Off: {true, false}, Accepted: {true, false}, Skipped: {true, true}, SoftFailed: {true, true},
		Rejected: {}, Unavailable: {}, Pending: {},
	}
	for outcome, want := range tests {
		v := Verdict{Outcome: outcome, Message: "why"}
		if v.Passes() != want.passes || (v.Warning() != "") != want.warns {
			t.Errorf("%s: passes %v with warning %q", outcome, v.Passes(), v.Warning())
		}
	}
}

// TestOneCallForTheSameCode has many Functions with the same code at once, in several namespaces. The model answers only
// when all of them wait.
func TestOneCallForTheSameCode(t *testing.T) {
	t.Parallel()
	const functions = 100
	asked, answer := make(chan struct{}), make(chan struct{})
	_, cfg := startModel(t, nil)
	v := validatorFunc(func(ctx context.Context) (bool, string, error) {
		close(asked) // A second call would panic.
		<-answer
		return false, "mines coins", nil
	})
	g := NewGate(cfg, v, Options{})
	var group errgroup.Group
	var rejected atomic.Int32
	for i := range functions {
		s := submission("same")
		s.Namespace, s.Name = fmt.Sprintf("ns-%d", i%7), fmt.Sprintf("fn-%d", i)
		group.Go(func() error {
			v, err := g.Review(t.Context(), s)
			if v.Outcome == Rejected {
				rejected.Add(1)
			}
			return err
		})
	}
	<-asked
	close(answer)
	if err := group.Wait(); err != nil || rejected.Load() != functions {
		t.Errorf("%d of %d were rejected, error %v", rejected.Load(), functions, err)
	}
}

// validatorFunc is a validator that does not look at the code.
type validatorFunc func(ctx context.Context) (bool, string, error)

func (f validatorFunc) Validate(ctx context.Context, _ map[string]string, _ string) (bool, string, error) {
	return f(ctx)
}

// TestParallelQuestions has much code of few namespaces at once: the bounds hold, and all of it is reviewed.
func TestParallelQuestions(t *testing.T) {
	t.Parallel()
	_, cfg := startModel(t, nil)
	cfg.MaxParallel = 4
	var now, most atomic.Int32
	v := validatorFunc(func(context.Context) (bool, string, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return true, "", nil
	})
	g := NewGate(cfg, v, Options{})
	var group errgroup.Group
	for i := range 200 {
		s := submission(fmt.Sprintf("code%d", i))
		s.Namespace = fmt.Sprintf("ns-%d", i%3)
		group.Go(func() error {
			v, err := g.Review(t.Context(), s)
			if err == nil && v.Outcome != Accepted {
				err = fmt.Errorf("got %+v", v)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if most.Load() > 4 {
		t.Errorf("%d questions at once, want at most 4", most.Load())
	}
}

// TestRestart has a second gate, as after a restart or in another program, that finds the verdicts of the first.
func TestRestart(t *testing.T) {
	t.Parallel()
	store, _ := startStore(t)
	model, cfg := startModel(t, slesstest.ModelRejectsWhat("evil", "mines coins"))
	first := newGate(t, cfg, Options{Store: store})
	for _, word := range []string{"evil", "good"} {
		review(t, first, submission(word))
		waitForRecord(t, store, submission(word))
	}
	asked := len(model.Calls())
	for name, tc := range map[string]struct {
		word  string
		tweak func(*Config, *Submission)
		want  Outcome
		asks  bool
	}{
		"rejected":        {word: "evil", want: Rejected},
		"accepted":        {word: "good", want: Accepted},
		"a dry run":       {word: "evil", want: Rejected, tweak: func(_ *Config, s *Submission) { s.KeptOnly = true }},
		"bare digits":     {word: "evil", want: Rejected, tweak: func(_ *Config, s *Submission) { s.Digest = "evil" }},
		"other runtime":   {word: "evil", want: Rejected, asks: true, tweak: func(_ *Config, s *Submission) { s.Runtime = "nodejs20" }},
		"other model":     {word: "evil", want: Rejected, asks: true, tweak: func(c *Config, _ *Submission) { c.Model = "newer" }},
		"other prompt":    {word: "evil", want: Rejected, asks: true, tweak: func(c *Config, _ *Submission) { c.Prompt = "other" }},
		"other namespace": {word: "evil", want: Rejected, asks: true, tweak: func(_ *Config, s *Submission) { s.Namespace = "other" }},
	} {
		cfg, s := cfg, submission(tc.word)
		if tc.tweak != nil {
			tc.tweak(&cfg, &s)
		}
		got := review(t, newGate(t, cfg, Options{Store: store}), s)
		calls := len(model.Calls()) - asked
		asked += calls
		if got.Outcome != tc.want || (calls > 0) != tc.asks {
			t.Errorf("%s: got %+v after %d questions", name, got, calls)
		}
	}
}

// waitForRecord waits until the verdict is in the store, which nobody waits for otherwise.
func waitForRecord(t *testing.T, store objectstore.Store, s Submission) {
	t.Helper()
	deadline := time.Now().Add(patient)
	for {
		rec, err := readRecord(t.Context(), store, objectstore.ReviewKey(s.Namespace, s.Digest))
		if err == nil && len(rec.Verdicts) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no verdict was stored: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestStoreIsDown has a store that is gone: verdicts are given and remembered all the same.
func TestStoreIsDown(t *testing.T) {
	t.Parallel()
	store, stop := startStore(t)
	stop()
	model, cfg := startModel(t, slesstest.ModelRejects("x"))
	log := &lines{}
	g := newGate(t, cfg, Options{Store: store, Log: log.logger()})
	for range 2 {
		if v := review(t, g, submission("evil")); v.Outcome != Rejected {
			t.Errorf("got %+v", v)
		}
	}
	if len(model.Calls()) != 1 || len(log.with("Looking for a kept verdict failed")) == 0 {
		t.Errorf("%d questions, log %q", len(model.Calls()), log.text)
	}
}

// TestSoftFailsAreNotKept has a model that recovers.
func TestSoftFailsAreNotKept(t *testing.T) {
	t.Parallel()
	store, _ := startStore(t)
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	model, cfg := startModel(t, slesstest.ModelFails(500))
	g := newGate(t, cfg, Options{Store: store, Clock: clock})
	for range 3 {
		if v := review(t, g, submission("hello")); v.Outcome != SoftFailed {
			t.Errorf("got %+v", v)
		}
	}
	if calls := len(model.Calls()); calls != 1 {
		t.Errorf("the model was asked %d times within a moment", calls)
	}
	model.Reply(slesstest.ModelRejects("mines coins"))
	clock.Step(softRememberedFor + time.Second)
	if v := review(t, g, submission("hello")); v.Outcome != Rejected {
		t.Errorf("after the model came back: %+v", v)
	}
}

// atOnce is a time for reading that ends a review of the patient at once: the time for the question is added to it.
const atOnce = time.Millisecond - patient

// TestStalledRead has code whose store stalls, for all slots. They come back, and the one who comes again learns why there is
// no verdict.
func TestStalledRead(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	v := validatorFunc(func(context.Context) (bool, string, error) { return true, "", nil })
	g := NewGate(Config{Enabled: true, MaxParallel: 1, Timeout: patient}, v, Options{Clock: clock, ReadTimeout: atOnce})
	left := make(chan struct{})
	stalled := submission("stalled")
	stalled.Recurring = true
	stalled.Files = func(ctx context.Context) (map[string]string, error) {
		<-ctx.Done()
		<-left
		return nil, ctx.Err()
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	pending := func() {
		t.Helper()
		if got, err := g.Review(gone, stalled); err != nil || got.Outcome != Pending {
			t.Fatalf("got %+v, %v, want that the code is being reviewed", got, err)
		}
		left <- struct{}{}
	}
	pending()
	if got := review(t, g, submission("fine")); got.Outcome != Accepted {
		t.Errorf("other code got %+v", got)
	}
	for range 2 {
		if _, err := g.Review(gone, stalled); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the code could not be read in time", err)
		}
	}
	clock.Step(softRememberedFor + time.Second)
	pending()
}

// TestStalledQuestion has a validator that knows no limit of its own.
func TestStalledQuestion(t *testing.T) {
	t.Parallel()
	v := validatorFunc(func(ctx context.Context) (bool, string, error) {
		<-ctx.Done()
		return false, "", ctx.Err()
	})
	g := NewGate(Config{Enabled: true, Timeout: patient}, v, Options{ReadTimeout: atOnce})
	want := Verdict{Outcome: SoftFailed, Message: "the reviewer did not answer in time"}
	if got := review(t, g, submission("hello")); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestCallerLeaves has a webhook whose time is up before the model answers. The verdict is there for the next caller.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	_, cfg := startModel(t, nil)
	answer := make(chan struct{})
	v := validatorFunc(func(ctx context.Context) (bool, string, error) {
		<-answer
		return false, "mines coins", ctx.Err()
	})
	g := NewGate(cfg, v, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := submission("evil")
	got, err := g.Review(ctx, s)
	if want := (Verdict{SoftFailed, "the reviewer did not answer in time"}); got != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	s.Recurring = true
	if got, err := g.Review(ctx, s); got.Outcome != Pending || got.Passes() || err != nil {
		t.Errorf("a controller got %+v, %v", got, err)
	}
	close(answer)
	s.Recurring = false // waits
	if got := review(t, g, s); got.Outcome != Rejected {
		t.Errorf("afterwards: %+v", got)
	}
}

// TestRecurringCallersDoNotWait has controllers that ask while all slots are taken. They are told at once, and asked to come
// again: their context has no end, so that the test would hang otherwise.
func TestRecurringCallersDoNotWait(t *testing.T) {
	t.Parallel()
	_, cfg := startModel(t, nil)
	cfg.MaxParallel = 1
	asked, answer := make(chan struct{}), make(chan struct{})
	v := validatorFunc(func(context.Context) (bool, string, error) {
		asked <- struct{}{}
		<-answer
		return true, "", nil
	})
	g := NewGate(cfg, v, Options{})
	var group errgroup.Group
	group.Go(func() error {
		_, err := g.Review(context.WithoutCancel(t.Context()), submission("first"))
		return err
	})
	<-asked
	for name, word := range map[string]string{"the same code": "first", "other code": "second"} {
		s := submission(word)
		s.Recurring = true
		if got, err := g.Review(context.WithoutCancel(t.Context()), s); got.Outcome != Pending || err != nil {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	close(answer)
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	s := submission("first")
	s.Recurring = true
	if got := review(t, g, s); got.Outcome != Accepted {
		t.Errorf("afterwards: %+v", got)
	}
}

// TestReaderFails has two callers with the same code, of which the first cannot read it.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	model, cfg := startModel(t, slesstest.ModelAccepts())
	g := newGate(t, cfg, Options{})
	began, fail := make(chan struct{}), make(chan struct{})
	broken := submission("same")
	broken.Files = func(context.Context) (map[string]string, error) {
		close(began)
		<-fail
		return nil, errors.New("closed")
	}
	var group errgroup.Group
	group.Go(func() error {
		if _, err := g.Review(t.Context(), broken); err == nil {
			return errors.New("the reader's error got lost")
		}
		return nil
	})
	<-began
	group.Go(func() error {
		v, err := g.Review(t.Context(), submission("same"))
		if err == nil && v.Outcome != Accepted {
			err = fmt.Errorf("got %+v", v)
		}
		return err
	})
	close(fail)
	if err := group.Wait(); err != nil || len(model.Calls()) != 1 {
		t.Errorf("%v after %d questions", err, len(model.Calls()))
	}
}

// TestRest has a model that is down for long: it is left alone for a moment, and then tried again.
func TestRest(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	model, cfg := startModel(t, slesstest.ModelFails(503))
	g := newGate(t, cfg, Options{Clock: clock})
	ask := func(i int) Verdict { return review(t, g, submission(fmt.Sprintf("code%d", i))) }
	for i := range 2 * restAfter {
		if v := ask(i); v.Outcome != SoftFailed {
			t.Errorf("got %+v", v)
		}
	}
	if calls := len(model.Calls()); calls != restAfter {
		t.Errorf("the model was asked %d times, want %d", calls, restAfter)
	}
	clock.Step(restFor)
	ask(100) // fails, and begins the next rest
	ask(101)
	if calls := len(model.Calls()); calls != restAfter+1 {
		t.Errorf("the model was asked %d times, want %d", calls, restAfter+1)
	}
	model.Reply(slesstest.ModelAccepts())
	clock.Step(restFor)
	if v := ask(102); v.Outcome != Accepted {
		t.Errorf("after the outage: %+v", v)
	}
}

// Answers that the code may have brought about do not stop the reviews of others.
func TestNoRestFromBadAnswers(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]slesstest.ModelReply{
		"prose": slesstest.ModelSays("no"), "refused": slesstest.ModelFails(400),
	} {
		model, cfg := startModel(t, reply)
		g := newGate(t, cfg, Options{})
		for i := range 3 * restAfter {
			review(t, g, submission(fmt.Sprintf("code%d", i)))
		}
		model.Reply(slesstest.ModelRejects("x"))
		if v := review(t, g, submission("evil")); v.Outcome != Rejected {
			t.Errorf("%s: got %+v", name, v)
		}
	}
}

// TestAudit has a refusal told in the log, with the digest and never with the code or the key.
func TestAudit(t *testing.T) {
	t.Parallel()
	_, cfg := startModel(t, slesstest.ModelRejects(
		"mines\ncoins \x1b[31mby run(\"stratum-secret-code-of-the-pool\") "+strings.Repeat("x", 1000)))
	log := &lines{}
	g := newGate(t, cfg, Options{Log: log.logger()})
	s := submission("stratum-secret-code-of-the-pool")
	s.Digest = codeDigest
	for range 2 {
		review(t, g, s)
	}
	if got := log.with("Refusing code"); len(got) != 2 {
		t.Errorf("two refusals gave %q", got)
	}
	s.Recurring = true
	for range 3 {
		review(t, g, s)
	}
	got := log.with("Refusing code")
	if len(got) != 3 {
		t.Fatalf("a recurring refusal gave %d lines more, want 1", len(got)-2)
	}
	line := got[2]
	for _, part := range []string{`"audit"=true`, `"function"="shop/cart"`, codeDigest, `"reason"="mines coins [31mby run(\"[code]\") xxx`} {
		if !strings.Contains(line, part) {
			t.Errorf("the line has no %s: %s", part, line)
		}
	}
	if len(line) > 2*MaxReasonBytes+400 {
		t.Errorf("the line has %d bytes", len(line))
	}
	s.Recurring, s.KeptOnly = false, true
	review(t, g, s)
	if got := log.with(`"dryRun"=true`); len(got) != 1 {
		t.Errorf("a dry run gave %q", got)
	}
	for _, part := range []string{"stratum", "sk-secret", "\x1b", "\n"} {
		if len(log.with(part)) > 0 {
			t.Errorf("the log holds %q: %q", part, log.with(part))
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	model, cfg := startModel(t, slesstest.ModelRejectsWhat("evil", "x"))
	g := newGate(t, cfg, Options{Registry: registry})
	for _, word := range []string{"evil", "evil", "good"} {
		review(t, g, submission(word))
	}
	model.Reply(slesstest.ModelFails(500))
	review(t, g, submission("other"))
	want := `
# HELP sless_code_review_model_calls_in_flight Questions that the model works on now.
# TYPE sless_code_review_model_calls_in_flight gauge
sless_code_review_model_calls_in_flight 0
# HELP sless_code_review_soft_fails_total Reviews that ended without a verdict, by cause, whatever the failure policy makes of them.
# TYPE sless_code_review_soft_fails_total counter
sless_code_review_soft_fails_total{cause="status"} 1
# HELP sless_code_review_verdicts_total Answers of the code review by outcome, and whether the verdict had been kept from before.
# TYPE sless_code_review_verdicts_total counter
sless_code_review_verdicts_total{kept="false",outcome="accepted"} 1
sless_code_review_verdicts_total{kept="false",outcome="rejected"} 1
sless_code_review_verdicts_total{kept="false",outcome="soft-failed"} 1
sless_code_review_verdicts_total{kept="true",outcome="rejected"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "sless_code_review_verdicts_total",
		"sless_code_review_soft_fails_total", "sless_code_review_model_calls_in_flight"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "sless_code_review_model_seconds"); err != nil || n != 1 {
		t.Errorf("the histogram: %d, %v", n, err)
	}
}
