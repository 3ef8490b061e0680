// SPDX-License-Identifier: Apache-2.0

// Package gittest runs real git servers for tests: the git program's own HTTP backend, and an SSH server that starts
// git-upload-pack. A test that needs it fails where git is not installed.
package gittest

import (
	"context"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Repository is a bare repository with a working tree beside it.
type Repository struct {
	t        testing.TB
	bare     string
	worktree string
}

// NewRepository makes an empty repository of the name, such as team/shop.git, in the folder root. Its branch is main.
func NewRepository(t testing.TB, root, name string) *Repository {
	t.Helper()
	r := &Repository{t: t, bare: filepath.Join(root, name), worktree: t.TempDir()}
	r.run(root, "init", "--quiet", "--bare", "--initial-branch=main", r.bare)
	r.run(root, "init", "--quiet", "--initial-branch=main", r.worktree)
	r.Git("remote", "add", "origin", r.bare)
	return r
}

// Commit writes the files, whose names are relative, commits all that changed in the working tree to the branch that is
// checked out, pushes it, and returns the commit.
func (r *Repository) Commit(files map[string]string) string {
	r.t.Helper()
	for name, text := range files {
		r.Write(name, text, 0o644)
	}
	r.Git("add", "--all")
	r.Git("commit", "--quiet", "--allow-empty", "--message=A change")
	r.Git("push", "--quiet", "--force", "--all", "origin")
	return r.Git("rev-parse", "HEAD")
}

// Write writes a file of the working tree.
func (r *Repository) Write(name, text string, mode os.FileMode) {
	r.t.Helper()
	path := r.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		r.t.Fatal(err)
	}
}

// Path returns the place of a file in the working tree.
func (r *Repository) Path(name string) string { return filepath.Join(r.worktree, name) }

// Git runs git in the working tree and returns what it prints.
func (r *Repository) Git(args ...string) string {
	r.t.Helper()
	return r.run(r.worktree, args...)
}

// Configure sets a value in the configuration of the served repository.
func (r *Repository) Configure(key, value string) {
	r.t.Helper()
	r.run(r.bare, "config", key, value)
}

func (r *Repository) run(dir string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(context.Background(), Program(r.t), args...)
	cmd.Dir, cmd.Env = dir, environment(r.bare)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Program returns the path of the git program.
func Program(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("these tests need git; install it: %v", err)
	}
	return path
}

// environment keeps the settings of the machine away, and makes commits that depend on their content alone.
func environment(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
		"GIT_ALLOW_PROTOCOL=file",
	}
}

// HashTree writes a tree of any content, also one that git would not make, and returns its hash.
func (r *Repository) HashTree(content string) string {
	r.t.Helper()
	cmd := exec.CommandContext(context.Background(), Program(r.t), "hash-object", "-t", "tree", "-w", "--stdin", "--literally")
	cmd.Dir, cmd.Env, cmd.Stdin = r.worktree, environment(r.bare), strings.NewReader(content)
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git hash-object: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// Binary returns a hash as the bytes that a tree holds.
func Binary(hash string) string {
	data, err := hex.DecodeString(hash)
	if err != nil {
		return hash
	}
	return string(data)
}
