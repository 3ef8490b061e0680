// SPDX-License-Identifier: Apache-2.0

package toolcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Program is one program of a group.
type Program struct {
	// Name is the file name in the cache.
	Name string
	// Package is the import path of the main package, "." for the group's own folder.
	Package string
}

// Group is a set of programs that are built together from one module.
type Group struct {
	// Name is a short file name.
	Name string
	// Dir is the folder in which `go build` runs. Its go.mod, go.sum and Go files decide the key.
	Dir string
	// Programs must not be empty.
	Programs []Program
	// Stamp gives linker flags that write the version into the programs, for the version of VersionModule. Optional.
	Stamp func(version string) []string
	// VersionModule is the module whose version in go.mod is the version of the group. Optional.
	VersionModule string
}

// buildFlags are the flags of every build. The module's go.sum is the promise of what is built, so it may not change.
func buildFlags() []string {
	return []string{"-trimpath", "-buildvcs=false", "-mod=readonly"}
}

// buildEnv keeps the caller's Go settings apart from those that would change the result or leave the module.
func buildEnv(env []string) []string {
	return append(slices.Clone(env), "CGO_ENABLED=0", "GOWORK=off")
}

// ldflags gives the value of -ldflags.
func (g Group) ldflags() (string, error) {
	flags := []string{"-s", "-w"}
	if g.Stamp != nil {
		version, err := g.Version()
		if err != nil {
			return "", err
		}
		flags = append(flags, g.Stamp(version)...)
	}
	return strings.Join(flags, " "), nil
}

// Version gives the version of VersionModule in the group's go.mod, such as "v1.37.2".
func (g Group) Version() (string, error) {
	return ModuleVersion(g.Dir, g.VersionModule)
}

// ModuleVersion reads the version that the go.mod in dir requires of a module. It fails when it requires none.
func ModuleVersion(dir, module string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", filepath.Join(dir, "go.mod"), module)
}

// modulePath reads the module line of the go.mod in dir.
func modulePath(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "module" {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s names no module", filepath.Join(dir, "go.mod"))
}

// Key gives 16 hex digits that change when the module's files, the Go toolchain, the target, or the flags change.
func (g Group) Key(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	cmd.Dir = g.Dir
	toolchain, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking for the Go version in %s: %w", g.Dir, err)
	}
	return g.key(string(toolchain))
}

func (g Group) key(toolchain string) (string, error) {
	ldflags, err := g.ldflags()
	if err != nil {
		return "", err
	}
	files, err := inputs(g.Dir)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	put := func(parts ...string) {
		for _, p := range parts {
			_, _ = fmt.Fprintf(h, "%d:%s\n", len(p), p)
		}
	}
	put(toolchain, ldflags)
	put(buildFlags()...)
	for _, p := range g.Programs {
		put(p.Name, p.Package)
	}
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(g.Dir, name))
		if err != nil {
			return "", err
		}
		put(name, string(data))
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// inputs lists the files in dir that decide what a build gives, sorted.
func inputs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		isGo := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if name == "go.mod" || name == "go.sum" || isGo {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s holds no Go module", dir)
	}
	return names, nil
}

// compile runs `go build` for all programs of the group at once, which links them in parallel.
func compile(ctx context.Context, g Group, out string, progress Progress) error {
	ldflags, err := g.ldflags()
	if err != nil {
		return err
	}
	args := append([]string{"build", "-v", "-ldflags", ldflags, "-o", out + string(filepath.Separator)}, buildFlags()...)
	for _, p := range g.Programs {
		args = append(args, p.Package)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = g.Dir
	cmd.Env = buildEnv(os.Environ())
	watch := newWatcher(progress)
	// One writer for both, so that os/exec uses one pipe and calls it from one goroutine.
	cmd.Stdout, cmd.Stderr = io.Writer(watch), io.Writer(watch)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("go build: %w\n%s", err, watch.tail())
	}
	return nil
}
