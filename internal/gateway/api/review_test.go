// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"

	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/testutil"
	"github.com/naeel/sless/internal/validator"
)

// reviewed is an API whose uploads a scripted model judges.
type reviewed struct {
	*testAPI
	model  *testutil.Model
	events chan string
}

func startReviewed(t *testing.T, reply testutil.ModelReply, tweaks ...func(*validator.Config)) reviewed {
	t.Helper()
	model := testutil.NewModel(reply)
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	t.Cleanup(model.Stop)
	cfg := validator.Config{
		Enabled: true, Endpoint: server.URL + "/v1", APIKey: "sk-secret", Model: "scripted", Timeout: testTimeout,
		Prompt: validator.DefaultPrompt,
	}
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	recorder := events.NewFakeRecorder(100)
	a := startAPI(t, func(c *Config) {
		gate, err := validator.New(cfg, validator.Options{Store: c.Store, Log: c.Log})
		if err != nil {
			t.Fatal(err)
		}
		c.Review, c.Events = gate, recorder
	})
	return reviewed{testAPI: a, model: model, events: recorder.Events}
}

// TestReviewOfUploads follows one Function: hostile code is refused before anything is changed, and each code costs one call.
func TestReviewOfUploads(t *testing.T) {
	t.Parallel()
	createFunction(t, "reviewed", "hello")
	a := startReviewed(t, testutil.ModelRejectsWhat("xmrig", "handler.py starts a miner"))
	good := zipOf(t, "handler.py", "def handle(e): return 1\n", "logo.png", "\x89PNG", "node_modules/a/i.js", "hidden()")
	evil := zipOf(t, "handler.py", "import os\nos.system('xmrig')\n")

	first := wantUploaded(t, a.upload(t, "reviewed", "hello", bytes.NewReader(good)))
	if len(first.Warnings) > 0 {
		t.Errorf("reviewed code has warnings %q", first.Warnings)
	}
	puts := a.store.puts.Load()
	for range 2 {
		got := a.upload(t, "reviewed", "hello", bytes.NewReader(evil))
		checkError(t, got, http.StatusBadRequest, "code validation failed: handler.py starts a miner")
		if got.body != `{"error":"code validation failed: handler.py starts a miner"}`+"\n" {
			t.Errorf("the body is %q", got.body)
		}
	}
	if fn := readHello(t, "reviewed"); fn.Spec.Source.Upload.SHA256 != first.SHA256 {
		t.Errorf("the Function has %+v", fn.Spec.Source.Upload)
	}
	if calls := a.model.CallsAbout("xmrig"); calls != 1 {
		t.Errorf("the same code was asked about %d times", calls)
	}
	for _, hidden := range []string{"PNG", "hidden()"} {
		if a.model.CallsAbout(hidden) != 0 {
			t.Errorf("%q was sent to the model", hidden)
		}
	}
	// What is stored of the refused code is the verdict at most.
	if stored := a.store.puts.Load() - puts; stored > 1 {
		t.Errorf("%d objects were stored of refused code", stored)
	}
	for range 2 {
		checkEvent(t, <-a.events)
	}
}

func checkEvent(t *testing.T, event string) {
	t.Helper()
	for _, part := range []string{"Warning CodeRejected", "the review refused the uploaded code sha256:", "nothing was changed: handler.py starts a miner"} {
		if !strings.Contains(event, part) {
			t.Errorf("the event %q does not say %q", event, part)
		}
	}
	if strings.Contains(event, "xmrig") {
		t.Errorf("the event holds the code: %q", event)
	}
}

func TestReviewWithoutAVerdict(t *testing.T) {
	t.Parallel()
	large := zipOf(t, "handler.py", "x = '"+strings.Repeat("ab", validator.MaxReviewBytes)+"'")
	small := zipOf(t, "handler.py", "def handle(e): return 1\n")
	fail := func(c *validator.Config) { c.FailurePolicy = validator.Fail }
	tests := map[string]struct {
		reply       testutil.ModelReply
		cfg         func(*validator.Config)
		code        []byte
		wantWarning string
		wantFailure string
	}{
		"500":         {reply: testutil.ModelFails(500), wantWarning: "the code was not reviewed: the reviewer answered with an error"},
		"breaks":      {reply: testutil.ModelBreaks(), wantWarning: "the code was not reviewed: the reviewer cannot be reached"},
		"lies":        {reply: testutil.ModelSays("safe!"), wantWarning: "the code was not reviewed: the reviewer's answer was not usable"},
		"500, Fail":   {reply: testutil.ModelFails(500), cfg: fail, wantFailure: "the code cannot be reviewed now: the reviewer answered with an error"},
		"too large":   {code: large, wantWarning: "the code was not reviewed: its text files have 204806 bytes"},
		"large, Fail": {code: large, cfg: fail, wantWarning: "the code was not reviewed: its text files have 204806 bytes"},
		"exempt": {
			wantWarning: "the code was not reviewed: the operator of the platform has exempted the namespace",
			cfg:         func(c *validator.Config) { c.SkipNamespaces = []string{naming.TenantNamespace("unreviewed-exempt")} },
		},
		"hangs": {
			cfg:         func(c *validator.Config) { c.Timeout = 200 * time.Millisecond },
			wantWarning: "the code was not reviewed: the reviewer did not answer in time",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			subject := "unreviewed-" + name
			createFunction(t, subject, "hello")
			a := startReviewed(t, tc.reply, func(c *validator.Config) {
				if tc.cfg != nil {
					tc.cfg(c)
				}
			})
			if name == "hangs" {
				a.model.Reply(a.model.ModelHangs())
			}
			code := small
			if tc.code != nil {
				code = tc.code
			}
			got := a.upload(t, subject, "hello", bytes.NewReader(code))
			if tc.wantFailure != "" {
				checkError(t, got, http.StatusServiceUnavailable, tc.wantFailure)
				if after, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || after < 1 {
					t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
				}
				if fn := readHello(t, subject); fn.Spec.Source.Upload.SHA256 != "" {
					t.Errorf("the Function has %+v", fn.Spec.Source.Upload)
				}
				return
			}
			answer := wantUploaded(t, got)
			if len(answer.Warnings) != 1 || !strings.HasPrefix(answer.Warnings[0], tc.wantWarning) {
				t.Errorf("got warnings %q, want %q", answer.Warnings, tc.wantWarning)
			}
		})
	}
}

// TestReviewIsOff has an API without a gate.
func TestReviewIsOff(t *testing.T) {
	t.Parallel()
	createFunction(t, "unreviewed", "hello")
	got := startAPI(t).upload(t, "unreviewed", "hello", bytes.NewReader(zipOf(t, "handler.py", "1")))
	if diff := cmp.Diff([]string(nil), wantUploaded(t, got).Warnings); diff != "" {
		t.Error(diff)
	}
}
