// SPDX-License-Identifier: Apache-2.0

// Package toolcache builds programs from Go modules once and keeps them in a folder outside the checkout, so that a
// fresh clone on the same machine does not build them again.
//
// Programs come in groups. A group is one Go module (mostly a tools module under hack/tools, whose pins must not move
// the pins of the main module), and its folder in the cache is named by a key that changes when anything that decides
// the result changes.
package toolcache

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// EnvRoot is the environment variable that moves the cache.
const EnvRoot = "SLESS_CACHE"

// Root gives the cache folder: the value of SLESS_CACHE, else "sless" in the user's cache folder. The folder need not
// exist. It fails when neither is known.
func Root() (string, error) {
	if dir := os.Getenv(EnvRoot); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: set %s: %w", EnvRoot, err)
	}
	return filepath.Join(dir, "sless"), nil
}

// Progress receives one short line of what a build is doing. It is called often (several times a second); the caller
// thins the lines out. It is called from one goroutine at a time.
type Progress func(line string)

// Cache builds groups into Dir.
type Cache struct {
	// Dir is the cache folder, see Root.
	Dir string
	// Poll is how often a caller looks whether another one has finished the same build; zero means 200 ms.
	Poll time.Duration
}

// Folder gives the folder of the group in the cache, and whether it is there (then it is complete).
func (c Cache) Folder(ctx context.Context, g Group) (dir string, built bool, err error) {
	key, err := g.Key(ctx)
	if err != nil {
		return "", false, err
	}
	dir = filepath.Join(c.Dir, "tools", g.Name+"-"+key)
	_, err = os.Stat(dir)
	if err != nil && !os.IsNotExist(err) {
		return "", false, err
	}
	return dir, err == nil, nil
}

// Build gives a folder that holds the group's programs, building them when the cache does not have them. Two callers
// (also in two processes) that ask for the same group build it once: the second waits. A build that is stopped at any
// moment leaves no folder that looks complete. On failure the error holds the last lines of the compiler.
func (c Cache) Build(ctx context.Context, g Group, progress Progress) (string, error) {
	if progress == nil {
		progress = func(string) {}
	}
	dir, built, err := c.Folder(ctx, g)
	if err != nil || built {
		return dir, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := c.lock(ctx, dir+".lock", func() { progress("waiting for another build of " + g.Name) })
	if err != nil {
		return "", fmt.Errorf("waiting for the lock of group %s: %w", g.Name, err)
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := buildInto(ctx, g, dir, progress); err != nil {
		return "", fmt.Errorf("building group %s: %w", g.Name, err)
	}
	return dir, nil
}

// buildInto builds beside the final folder and moves the whole in one step.
func buildInto(ctx context.Context, g Group, dir string, progress Progress) error {
	// The lock is held, so whatever has this prefix was left by a build that was killed.
	stale, err := filepath.Glob(dir + ".tmp-*")
	if err != nil {
		return err
	}
	for _, path := range stale {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".tmp-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := compile(ctx, g, tmp, progress); err != nil {
		return err
	}
	if err := nameOutputs(g, tmp); err != nil {
		return err
	}
	// MkdirTemp makes private folders, and tests may run as another user than the one that built.
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

// nameOutputs renames what `go build` made to the names that the group gives its programs.
func nameOutputs(g Group, dir string) error {
	for _, p := range g.Programs {
		from := filepath.Join(dir, defaultOutput(p.Package, g.Dir))
		to := filepath.Join(dir, p.Name)
		if from == to {
			continue
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	return nil
}

// defaultOutput is the file name that `go build -o FOLDER/` gives a program: the last element of its import path that
// is not a major version. Where the folder is the root of a module, "." means the module's path.
func defaultOutput(pkg, dir string) string {
	if pkg == "." {
		pkg = dir
		if module, err := modulePath(dir); err == nil {
			pkg = module
		}
	}
	parts := strings.Split(pkg, "/")
	last := parts[len(parts)-1]
	if len(parts) > 1 && isMajorVersion(last) {
		last = parts[len(parts)-2]
	}
	return last
}

func isMajorVersion(s string) bool {
	digits, ok := strings.CutPrefix(s, "v")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}
