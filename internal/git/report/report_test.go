// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	commit = "0123456789abcdef0123456789abcdef01234567"
	digest = "sha256:00"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Fetched{
		"new":       {Ref: "main", Commit: commit, Digest: digest, Size: 5},
		"unchanged": {Ref: "main", Commit: commit, Unchanged: true},
		"a commit":  {Commit: commit, Digest: digest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := want.Encode()
			if err != nil || strings.Contains(text, "\n") {
				t.Fatalf("Encode gives %q, %v", text, err)
			}
			got, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":          "",
		"a failure":        "GitFailed: no",
		"a cut line":       `{"commit":"` + commit + `","dig`,
		"no commit":        `{"digest":"sha256:00"}`,
		"short commit":     `{"commit":"0123","digest":"sha256:00"}`,
		"neither of both":  `{"commit":"` + commit + `"}`,
		"both of the two ": `{"commit":"` + commit + `","digest":"sha256:00","unchanged":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := Parse(text); err == nil {
				t.Errorf("Parse accepts %q: %+v", text, got)
			}
		})
	}
}

func TestRevision(t *testing.T) {
	t.Parallel()
	for want, fetched := range map[string]Fetched{
		"main@sha1:" + commit:        {Ref: "main", Commit: commit},
		"sha1:" + commit:             {Commit: commit},
		"user@home@sha1:" + commit:   {Ref: "user@home", Commit: commit},
		"refs/pull/1@sha1:" + commit: {Ref: "refs/pull/1", Commit: commit},
	} {
		if got := fetched.Revision(); got != want {
			t.Errorf("Revision of %+v is %q, want %q", fetched, got, want)
		}
		if got := CommitOf(want); got != commit {
			t.Errorf("CommitOf(%q) = %q", want, got)
		}
	}
	for _, text := range []string{"", "main", "main@", "main@" + commit} {
		if got := CommitOf(text); got != "" {
			t.Errorf("CommitOf(%q) = %q, want nothing", text, got)
		}
	}
}
