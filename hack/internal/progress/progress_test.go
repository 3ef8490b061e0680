// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStepShowsThatItIsAlive(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	// In the bubble time passes only while everybody waits for it.
	synctest.Test(t, func(t *testing.T) {
		p := New(&out, time.Now)
		err := p.Step("Build", func(say Say) (string, error) {
			say("%d packages", 1)
			time.Sleep(15 * time.Second)
			say("%d packages", 2)
			time.Sleep(8 * time.Second)
			return "v1 built", nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	want := `[   2.0s] Build ...
[  12.0s]   1 packages
[  22.0s]   2 packages
[  23.0s] Build: v1 built (23.0s)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestQuickStepsHaveOneLine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := New(&out, func() time.Time { return time.Unix(0, 0) })
	broken := errors.New("broken")
	if err := p.Step("One", func(Say) (string, error) { return "", nil }); err != nil {
		t.Fatal(err)
	}
	err := p.Step("Two", func(Say) (string, error) { return "ignored", broken })
	if !errors.Is(err, broken) || err.Error() != "Two: broken" {
		t.Errorf("error is %v", err)
	}
	p.Printf("The end: %d", 3)
	want := "[   0.0s] One: done (0.0s)\n[   0.0s] Two: failed (0.0s)\n[   0.0s] The end: 3\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestAChildGoesOnWithTheClock(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	name, value, _ := strings.Cut(New(io.Discard, func() time.Time { return began }).Env(), "=")
	t.Setenv(name, value)
	out := &strings.Builder{}
	New(out, func() time.Time { return began.Add(90 * time.Second) }).Printf("later")
	if want := "[  90.0s] later\n"; out.String() != want {
		t.Errorf("a child prints %q, want %q", out, want)
	}
}
