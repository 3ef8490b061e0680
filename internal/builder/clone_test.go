// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/git/gittest"
	"github.com/naeel/sless/internal/git/report"
	"github.com/naeel/sless/internal/objectstore"
)

// startGit serves a repository with a function in it, in front of which a gate stands.
func startGit(t *testing.T) (*gittest.Repository, *gate, string) {
	t.Helper()
	root := t.TempDir()
	repository := gittest.NewRepository(t, root, "shop.git")
	repository.Commit(map[string]string{"handler.py": "one", "fn/cart.py": "two"})
	front := &gate{next: gittest.NewHTTP(t, root)}
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	return repository, front, server.URL + "/shop.git"
}

// keep writes files as a mounted Secret has them.
func keep(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func cloneArgs(t *testing.T, url string, more ...string) []string {
	t.Helper()
	return append([]string{"clone", "--url", url, "--namespace", "shop", "--scratch", t.TempDir()}, more...)
}

func parse(t *testing.T, got result) report.Fetched {
	t.Helper()
	fetched, err := report.Parse(got.termination)
	if got.code != 0 || err != nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	return fetched
}

func TestClone(t *testing.T) {
	t.Parallel()
	store, _, env := startStore(t)
	repository, front, url := startGit(t)
	commit := repository.Git("rev-parse", "HEAD")
	// The archive is the one that the same files give, wherever they come from.
	want, err := archive.FromFiles(map[string]string{"handler.py": "one", "fn/cart.py": "two"}, archive.Options{Prefix: "app"})
	if err != nil {
		t.Fatal(err)
	}
	front.shut(http.StatusServiceUnavailable, 2)
	args := cloneArgs(t, url)
	fetched := parse(t, run(t, env, args...))
	wantFetched := report.Fetched{
		Ref: "main", Commit: commit, Digest: want.Digest, Size: int64(len(want.Data)),
	}
	if diff := cmp.Diff(wantFetched, fetched); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	content, _, err := objectstore.OpenVerified(t.Context(), store, objectstore.CodeKey("shop", want.Digest), want.Digest, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := content.Close(); err != nil {
		t.Error(err)
	}
	if left := listTree(t, args[6]); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if fetched := parse(t, run(t, env, cloneArgs(t, url, "--known", commit)...)); !fetched.Unchanged || fetched.Digest != "" {
		t.Errorf("known commit: got %+v", fetched)
	}
	part := parse(t, run(t, env, cloneArgs(t, url, "--path", "fn", "--revision", commit, "--known", strings.Repeat("0", 40))...))
	if part.Digest == want.Digest || part.Revision() != "sha1:"+commit {
		t.Errorf("folder: got %+v", part)
	}
}

func TestCloneWithCredentials(t *testing.T) {
	t.Parallel()
	_, _, env := startStore(t)
	root := t.TempDir()
	gittest.NewRepository(t, root, "shop.git").Commit(map[string]string{"handler.py": "one"})
	protected := gittest.NewHTTP(t, root)
	protected.Protect("robot", secretKey)
	server := httptest.NewServer(protected)
	t.Cleanup(server.Close)
	ssh := gittest.StartSSH(t, "127.0.0.1:0", root, "")
	tests := map[string]struct {
		url        string
		files      map[string]string
		wantReason string
	}{
		"password":       {files: map[string]string{"username": "robot", "password": secretKey}},
		"token":          {files: map[string]string{"username": "robot", "token": secretKey}},
		"wrong password": {files: map[string]string{"username": secretKey, "password": "no"}, wantReason: report.AuthFailed},
		"nothing":        {wantReason: report.AuthFailed},
		"key": {
			url: ssh.URL("shop.git"), files: map[string]string{"identity": string(ssh.Identity), "known_hosts": string(ssh.KnownHosts)},
		},
		"key without known hosts": {
			url: ssh.URL("shop.git"), files: map[string]string{"identity": string(ssh.Identity)}, wantReason: report.SecretInvalid,
		},
		"bad authority": {files: map[string]string{"ca.crt": "none"}, wantReason: report.SecretInvalid},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := tc.url
			if url == "" {
				url = server.URL + "/shop.git"
			}
			got := run(t, env, cloneArgs(t, url, "--credentials", keep(t, tc.files), "--ca-file", "/nowhere")...)
			if tc.wantReason != "" {
				got.wantFailure(t, tc.wantReason)
				return
			}
			parse(t, got)
		})
	}
}

func TestCloneFails(t *testing.T) {
	t.Parallel()
	_, _, env := startStore(t)
	repository, _, url := startGit(t)
	if err := os.Symlink("/etc/passwd", repository.Path("link")); err != nil {
		t.Fatal(err)
	}
	repository.Git("checkout", "--quiet", "-b", "linked")
	repository.Commit(nil)
	tests := map[string]struct {
		url        string
		more       []string
		env        map[string]string
		wantReason string
		wantWords  []string
	}{
		"no branch":  {more: []string{"--revision", "none"}, wantReason: report.RevisionNotFound, wantWords: []string{"none"}},
		"no folder":  {more: []string{"--path", "none"}, wantReason: report.PathNotFound, wantWords: []string{"none"}},
		"a link":     {more: []string{"--revision", "linked"}, wantReason: report.Invalid, wantWords: []string{`"link" is a symbolic link`}},
		"too large":  {more: []string{"--max-bytes", "10"}, wantReason: report.TooLarge, wantWords: []string{"10 bytes"}},
		"too late":   {more: []string{"--timeout", "1ns"}, wantReason: report.TimedOut},
		"no scratch": {more: []string{"--scratch", "/nowhere"}, wantReason: report.Failed},
		"no server":  {url: "http://127.0.0.1:1/x", wantReason: report.Unreachable},
		"no store": {
			env: map[string]string{"S3_ENDPOINT": "127.0.0.1:1"}, wantReason: ReasonStoreUnavailable, wantWords: []string{"storing"},
		},
		"no bucket":   {env: map[string]string{"S3_BUCKET": "other"}, wantReason: ReasonStoreRefused, wantWords: []string{"has no bucket"}},
		"bad setting": {env: map[string]string{"S3_INSECURE": "maybe"}, wantReason: report.Failed},
		"usage":       {more: []string{"--other"}, wantReason: report.Failed, wantWords: []string{"--other"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := map[string]string{}
			for _, from := range []map[string]string{env, tc.env} {
				maps.Copy(changed, from)
			}
			from := url
			if tc.url != "" {
				from = tc.url
			}
			run(t, changed, cloneArgs(t, from, tc.more...)...).wantFailure(t, tc.wantReason, tc.wantWords...)
		})
	}
}
