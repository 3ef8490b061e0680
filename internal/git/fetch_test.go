// SPDX-License-Identifier: Apache-2.0

package git

import (
	"context"
	"io/fs"
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
)

const (
	handler = "def handle(event, context):\n    return 'one'\n"
	token   = "a-token-that-nobody-may-see"
)

// served is a repository with some history behind an HTTP server.
type served struct {
	*gittest.Repository
	root string
	http *gittest.HTTP
	url  string
	// commits in the order in which they were made.
	first, second, release, dev string
}

// serve makes a repository: first and second on main, a tag at first, an annotated tag at release, a branch dev.
func serve(t *testing.T) *served {
	t.Helper()
	root := t.TempDir()
	s := &served{Repository: gittest.NewRepository(t, root, "shop.git"), root: root, http: gittest.NewHTTP(t, root)}
	s.first = s.Commit(map[string]string{"handler.py": handler})
	s.Git("tag", "v1")
	s.release = s.Commit(map[string]string{"lib/words.py": "word = 'x'\n", "fn/cart/handler.py": handler})
	s.Git("tag", "--annotate", "--message=x", "v2")
	s.Git("tag", "--annotate", "--message=x", "both", "v2")
	s.second = s.Commit(map[string]string{"handler.py": strings.ReplaceAll(handler, "one", "two")})
	s.Git("checkout", "--quiet", "-b", "dev/next")
	s.dev = s.Commit(map[string]string{"dev.txt": "dev"})
	s.Git("checkout", "--quiet", "main")
	s.Git("branch", "both", "main")
	s.Git("push", "--quiet", "--all", "origin")
	s.Git("push", "--quiet", "--tags", "origin")
	server := httptest.NewServer(s.http)
	t.Cleanup(server.Close)
	s.url = server.URL + "/shop.git"
	return s
}

// fetchFiles fetches and returns the files.
func fetchFiles(t *testing.T, req Request) (report.Fetched, map[string]string, error) {
	t.Helper()
	if req.MaxBytes == 0 {
		req.MaxBytes = 10 << 20
	}
	if req.Limits.MaxEntries == 0 {
		req.Limits = archive.DefaultLimits
	}
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	fetched, err := Fetch(t.Context(), req, root, t.TempDir())
	files := map[string]string{}
	walkErr := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		kind := ""
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := root.Readlink(name)
			files[name] = "-> " + target
			return err
		case info.Mode()&0o111 != 0:
			kind = "x "
		}
		data, err := root.ReadFile(name)
		files[name] = kind + string(data)
		return err
	})
	if walkErr != nil {
		t.Fatal(walkErr)
	}
	return fetched, files, err
}

func wantFault(t *testing.T, err error, reason string, words ...string) {
	t.Helper()
	found, ok := err.(*Fault) //nolint:errorlint // Fetch promises the type.
	if !ok || found.Reason != reason {
		t.Fatalf("got error %v, want reason %s", err, reason)
	}
	for _, word := range words {
		if !strings.Contains(found.Error(), word) {
			t.Errorf("got %q, want %q in it", found, word)
		}
	}
	if strings.Contains(found.Error(), token) {
		t.Errorf("the token is shown: %q", found)
	}
}

func TestFetchRevisions(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Configure("uploadpack.allowReachableSHA1InWant", "true")
	two := strings.ReplaceAll(handler, "one", "two")
	before := map[string]string{"handler.py": handler, "lib/words.py": "word = 'x'\n", "fn/cart/handler.py": handler}
	after := maps.Clone(before)
	after["handler.py"] = two
	next := maps.Clone(after)
	next["dev.txt"] = "dev"
	tests := map[string]struct {
		revision, path string
		wantRef        string
		wantCommit     string
		wantFiles      map[string]string
	}{
		"default branch":       {wantRef: "main", wantCommit: s.second, wantFiles: after},
		"HEAD":                 {revision: "HEAD", wantRef: "main", wantCommit: s.second, wantFiles: after},
		"branch":               {revision: "main", wantRef: "main", wantCommit: s.second, wantFiles: after},
		"branch with a slash":  {revision: "dev/next", wantRef: "dev/next", wantCommit: s.dev, wantFiles: next},
		"branch in full":       {revision: "refs/heads/main", wantRef: "main", wantCommit: s.second, wantFiles: after},
		"tag":                  {revision: "v1", wantRef: "v1", wantCommit: s.first, wantFiles: map[string]string{"handler.py": handler}},
		"annotated tag":        {revision: "v2", wantRef: "v2", wantCommit: s.release, wantFiles: before},
		"tag of a tag":         {revision: "refs/tags/both", wantRef: "both", wantCommit: s.release, wantFiles: before},
		"branch before tag":    {revision: "both", wantRef: "both", wantCommit: s.second, wantFiles: after},
		"commit of a branch":   {revision: s.second, wantCommit: s.second, wantFiles: after},
		"commit inside":        {revision: s.release, wantCommit: s.release, wantFiles: before},
		"upper case":           {revision: strings.ToUpper(s.release), wantCommit: s.release, wantFiles: before},
		"abbreviated":          {revision: s.second[:7], wantCommit: s.second, wantFiles: after},
		"abbreviated at a tag": {revision: s.release[:10], wantCommit: s.release, wantFiles: before},
		"folder":               {path: "fn/cart", wantRef: "main", wantCommit: s.second, wantFiles: map[string]string{"handler.py": handler}},
		"folder with dots":     {path: "./fn//cart/", wantRef: "main", wantCommit: s.second, wantFiles: map[string]string{"handler.py": handler}},
		"root in words":        {path: "/", wantRef: "main", wantCommit: s.second, wantFiles: after},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fetched, files, err := fetchFiles(t, Request{URL: s.url, Revision: tc.revision, Path: tc.path})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(report.Fetched{Ref: tc.wantRef, Commit: tc.wantCommit}, fetched); diff != "" {
				t.Errorf("Fetch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantFiles, files); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFetchEndsWhenTheCommitIsKnown(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for revision, commit := range map[string]string{"main": s.second, "v2": s.release, "": s.second, s.second: s.second} {
		fetched, files, err := fetchFiles(t, Request{URL: s.url, Revision: revision, Known: commit})
		if err != nil || !fetched.Unchanged || fetched.Commit != commit || len(files) != 0 {
			t.Errorf("revision %q: got %+v, %v, %d files", revision, fetched, err, len(files))
		}
	}
	if s.http.Packs.Load() != 0 {
		t.Errorf("content was asked for %d times", s.http.Packs.Load())
	}
	if fetched, _, err := fetchFiles(t, Request{URL: s.url, Known: s.first}); err != nil || fetched.Unchanged {
		t.Errorf("another commit: got %+v, %v", fetched, err)
	}
}

func TestFetchTakesOneCommit(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Commit(map[string]string{"large.bin": randomText(4 << 20)})
	s.Git("rm", "--quiet", "large.bin")
	s.Commit(nil)
	if _, _, err := fetchFiles(t, Request{URL: s.url, MaxBytes: 1 << 20}); err != nil {
		t.Errorf("history was fetched: %v", err)
	}
}

func TestFetchFaults(t *testing.T) {
	t.Parallel()
	s := serve(t)
	gittest.NewRepository(t, s.root, "empty.git")
	base := strings.TrimSuffix(s.url, "/shop.git")
	pages := httptest.NewServer(http.FileServer(http.Dir(t.TempDir())))
	t.Cleanup(pages.Close)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(broken.Close)
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(cut.Close)
	noGit := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	t.Cleanup(noGit.Close)
	secure := startTLS(t, s.http)
	hidden := strings.Repeat("0123456789", 4)
	tests := map[string]struct {
		req        Request
		wantReason string
		wantWords  []string
	}{
		"no repository":      {Request{URL: base + "/none.git"}, report.RepositoryNotFound, []string{"spec.source.git.url"}},
		"a web site":         {Request{URL: pages.URL}, report.RepositoryNotFound, []string{"no such repository"}},
		"a page for all":     {Request{URL: noGit.URL}, report.Failed, nil},
		"empty repository":   {Request{URL: base + "/empty.git"}, report.RevisionNotFound, []string{"empty"}},
		"no branch":          {Request{URL: s.url, Revision: "nope"}, report.RevisionNotFound, []string{`no branch or tag "nope"`}},
		"no short commit":    {Request{URL: s.url, Revision: "0123456"}, report.RevisionNotFound, []string{"40 digits"}},
		"two short commits":  {Request{URL: s.url, Revision: sharedDigits(s)}, report.RevisionNotFound, []string{"40 digits"}},
		"commit inside":      {Request{URL: s.url, Revision: hidden}, report.RevisionNotFound, []string{"uploadpack.allowReachableSHA1InWant"}},
		"no folder":          {Request{URL: s.url, Path: "fn/none"}, report.PathNotFound, []string{`"fn/none"`, "spec.source.git.path"}},
		"folder is a file":   {Request{URL: s.url, Path: "handler.py"}, report.PathNotFound, []string{`"handler.py"`}},
		"below a file":       {Request{URL: s.url, Path: "handler.py/x"}, report.PathNotFound, nil},
		"too large":          {Request{URL: s.url, MaxBytes: 100}, report.TooLarge, []string{"100 bytes", "git.maxBytes"}},
		"nobody there":       {Request{URL: "http://127.0.0.1:1/shop.git"}, report.Unreachable, []string{"127.0.0.1:1"}},
		"no such host":       {Request{URL: "http://git.invalid/shop.git"}, report.Unreachable, []string{"git.invalid"}},
		"out of order":       {Request{URL: broken.URL + "/x"}, report.Unreachable, []string{"502"}},
		"connection cut":     {Request{URL: cut.URL + "/x"}, report.Unreachable, nil},
		"unknown authority":  {Request{URL: secure.URL + "/shop.git"}, report.TLSFailed, []string{"ca.crt"}},
		"no TLS":             {Request{URL: strings.Replace(s.url, "http:", "https:", 1)}, report.TLSFailed, []string{"TLS"}},
		"ca.crt is no PEM":   {Request{URL: s.url, Authorities: []byte("x")}, report.SecretInvalid, []string{"ca.crt"}},
		"no address":         {Request{URL: "file:///etc"}, report.RepositoryNotFound, []string{"https://"}},
		"a folder":           {Request{URL: s.root + "/shop.git"}, report.RepositoryNotFound, []string{"https://"}},
		"no keys for SSH":    {Request{URL: "git@127.0.0.1:shop.git"}, report.SecretInvalid, []string{"known_hosts"}},
		"too many files":     {Request{URL: s.url, Limits: archive.Limits{MaxEntries: 2, MaxDepth: 9, MaxNameBytes: 99, MaxPathBytes: 99, MaxTotalBytes: 999}}, report.TooLarge, []string{"2 files"}},
		"too many bytes":     {Request{URL: s.url, Limits: archive.Limits{MaxEntries: 9, MaxDepth: 9, MaxNameBytes: 99, MaxPathBytes: 99, MaxTotalBytes: 50}}, report.TooLarge, []string{"50 bytes"}},
		"too deep":           {Request{URL: s.url, Limits: archive.Limits{MaxEntries: 9, MaxDepth: 2, MaxNameBytes: 99, MaxPathBytes: 99, MaxTotalBytes: 999}}, report.Invalid, []string{"2 levels"}},
		"too long a path":    {Request{URL: s.url, Limits: archive.Limits{MaxEntries: 9, MaxDepth: 9, MaxNameBytes: 99, MaxPathBytes: 12, MaxTotalBytes: 999}}, report.Invalid, []string{"too long"}},
		"commit is no digit": {Request{URL: s.url, Revision: "zzzzzzz"}, report.RevisionNotFound, []string{"no branch or tag"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := fetchFiles(t, tc.req)
			wantFault(t, err, tc.wantReason, tc.wantWords...)
		})
	}
}

// sharedDigits would be the first digits of two commits; four hexadecimal digits are the fewest that are taken, so the
// test makes branches until two commits begin alike.
func sharedDigits(s *served) string {
	seen := map[string]bool{s.first[:4]: true, s.second[:4]: true, s.release[:4]: true, s.dev[:4]: true}
	tree := s.Git("rev-parse", "HEAD^{tree}")
	for i := 0; ; i++ {
		commit := s.Git("commit-tree", "-m", strings.Repeat("x", i+1), tree)
		if i < 600 && !seen[commit[:4]] {
			seen[commit[:4]] = true
			s.Git("update-ref", "refs/heads/many/"+commit, commit)
			continue
		}
		s.Git("update-ref", "refs/heads/many/"+commit, commit)
		s.Git("push", "--quiet", "--all", "origin")
		return commit[:4]
	}
}

func TestFetchOfACommitThatTheServerHides(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Configure("uploadpack.allowReachableSHA1InWant", "true")
	_, _, err := fetchFiles(t, Request{URL: s.url, Revision: strings.Repeat("0123456789", 4)})
	wantFault(t, err, report.RevisionNotFound, "0123456789", "spec.source.git.revision")
	blob := s.Git("rev-parse", "main:handler.py")
	s.Configure("uploadpack.allowAnySHA1InWant", "true")
	_, _, err = fetchFiles(t, Request{URL: s.url, Revision: blob})
	wantFault(t, err, report.RevisionNotFound, "not a commit")
}

func TestFetchTimesOut(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	stuck := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(stuck.Close)
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	_, err = Fetch(ctx, Request{URL: stuck.URL + "/x", MaxBytes: 1, Limits: archive.DefaultLimits}, root, t.TempDir())
	wantFault(t, err, report.TimedOut, "in time")
}

func TestCheckout(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Git("rm", "-r", "--quiet", ".")
	s.Write("run.sh", "#!/bin/sh\n", 0o755)
	s.Write("large.txt", strings.Repeat("0123456789\n", 300_000), 0o644)
	s.Write("crlf.txt", "a\r\nb\r\n", 0o644)
	s.Write(".gitattributes", "*.txt text eol=lf filter=lfs\n", 0o644)
	s.Git("config", "core.autocrlf", "false")
	if err := os.Symlink("../../etc/passwd", s.Path("link")); err != nil {
		t.Fatal(err)
	}
	s.Git("add", "--all")
	// A submodule is an entry that names a commit of another repository.
	s.Git("update-index", "--add", "--cacheinfo", "160000,"+s.first+",vendor/lib")
	s.Git("commit", "--quiet", "--message=x")
	s.Git("push", "--quiet", "origin", "main")
	_, files, err := fetchFiles(t, Request{URL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	if len(files["large.txt"]) != 3_300_000 {
		t.Errorf("large.txt has %d bytes", len(files["large.txt"]))
	}
	delete(files, "large.txt")
	want := map[string]string{
		"run.sh": "x #!/bin/sh\n", "link": "-> ../../etc/passwd", "crlf.txt": s.Git("show", "main:crlf.txt") + "\n",
		".gitattributes": "*.txt text eol=lf filter=lfs\n",
	}
	files["crlf.txt"] = strings.TrimRight(files["crlf.txt"], "\r\n") + "\n"
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestCheckoutRefusesLFS(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Commit(map[string]string{"model.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"})
	_, _, err := fetchFiles(t, Request{URL: s.url})
	wantFault(t, err, report.Invalid, "model.bin", "Git LFS")
}

// A tree can hold names that git itself never writes.
func TestCheckoutRefusesNames(t *testing.T) {
	t.Parallel()
	for name, wantReason := range map[string]string{"..": report.Invalid, "a/b": report.Invalid, ".git": ""} {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			tree := s.Git("rev-parse", "main:lib")
			evil := s.HashTree("40000 " + name + "\x00" + gittest.Binary(tree))
			commit := s.Git("commit-tree", "-m", "x", evil)
			s.Git("update-ref", "refs/heads/evil", commit)
			s.Git("push", "--quiet", "origin", "evil")
			_, files, err := fetchFiles(t, Request{URL: s.url, Revision: "evil"})
			if wantReason == "" {
				if err != nil || len(files) != 0 {
					t.Errorf("got %v, %v", files, err)
				}
				return
			}
			wantFault(t, err, wantReason)
		})
	}
}

func TestFetchLeavesNothingOutside(t *testing.T) {
	t.Parallel()
	s := serve(t)
	scratch := t.TempDir()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if _, err := Fetch(t.Context(), Request{URL: s.url, MaxBytes: 1 << 20, Limits: archive.DefaultLimits}, root, scratch); err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob(scratch + "/*")
	if err != nil || len(list) != 1 || filepath.Base(list[0]) != "git" {
		t.Errorf("scratch holds %v, %v", list, err)
	}
}
