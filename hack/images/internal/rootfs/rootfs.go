// SPDX-License-Identifier: Apache-2.0

// Package rootfs makes root file systems from Debian packages with mmdebstrap. Packages are extracted, not installed:
// that takes seconds, and what their install scripts would have done is said in the recipe.
package rootfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/naeel/sless/hack/images/internal/layer"
	"github.com/naeel/sless/hack/images/internal/recipe"
)

// certificates is where programs look for the certificates of public authorities.
const certificates = "etc/ssl/certs/ca-certificates.crt"

// Base makes the root file system under every runtime, for the architecture of this machine.
func Base(ctx context.Context, base *recipe.Base) (layer.Tree, error) {
	tree, err := debian(ctx, base, &recipe.Local{})
	if err != nil {
		return nil, err
	}
	if err := addLiterals(tree, base.Files, base.Directories, base.Links); err != nil {
		return nil, err
	}
	tree.AddParents()
	return tree, nil
}

// Language makes the whole root file system of a runtime: the base, its Debian packages, and extra, which is what comes
// from elsewhere. Packages of base and runtime are resolved together; a runtime without Debian packages goes onto
// baseTree, which Base made.
func Language(
	ctx context.Context, base *recipe.Base, baseTree layer.Tree, local *recipe.Local, extra layer.Tree,
) (layer.Tree, error) {
	tree := maps.Clone(baseTree)
	if len(local.Debian.Packages) > 0 {
		packages, err := debian(ctx, base, local)
		if err != nil {
			return nil, err
		}
		maps.Copy(tree, packages)
	}
	maps.Copy(tree, extra)
	tree.Filter(local.Remove, local.Keep)
	if err := errors.Join(addLiterals(tree, base.Files, base.Directories, base.Links),
		addLiterals(tree, local.Files, local.Directories, local.Links)); err != nil {
		return nil, err
	}
	tree.AddParents()
	return tree, nil
}

// debian extracts the packages of base and runtime, does what their install scripts do, and removes what a function
// never needs.
func debian(ctx context.Context, base *recipe.Base, local *recipe.Local) (layer.Tree, error) {
	packages := slices.Concat(base.Packages, local.Debian.Packages)
	tree, err := extract(ctx, base.Suite, packages, local.Debian.Run)
	if err != nil {
		return nil, err
	}
	tree.MergeUsr()
	bundle, err := certificateBundle(tree)
	if err != nil {
		return nil, err
	}
	tree.Filter(base.Remove, slices.Concat(base.Keep, local.Keep))
	tree[certificates] = layer.File(0o644, bundle)
	return tree, nil
}

// extract runs mmdebstrap and reads its archive.
func extract(ctx context.Context, suite string, packages, run []string) (layer.Tree, error) {
	dir, err := os.MkdirTemp("", "sless-rootfs-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// mmdebstrap works in TMPDIR and, as root, leaves devices there if it is killed; so it gets a folder of ours.
	archive := filepath.Join(dir, "root.tar")
	args := []string{
		"--quiet", "--variant=extract", "--mode=root", "--include=" + strings.Join(packages, ","),
		"--aptopt=Acquire::Languages \"none\"",
	}
	for _, proxy := range proxies(ctx) {
		args = append(args, "--aptopt="+proxy)
	}
	for _, command := range run {
		args = append(args, "--extract-hook=chroot \"$1\" /bin/sh -ec "+quote(command))
	}
	args = append(args, suite, archive)
	args = append(args, sources(ctx, suite)...)
	cmd := exec.CommandContext(ctx, "mmdebstrap", args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "SOURCE_DATE_EPOCH=0", "LC_ALL=C.UTF-8", "PYTHONHASHSEED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mmdebstrap: %w\n%s", err, tail(out))
	}
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return layer.ReadTar(f)
}

// certificateBundle joins the certificates of the package ca-certificates, as update-ca-certificates does.
func certificateBundle(tree layer.Tree) ([]byte, error) {
	var bundle bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if strings.HasPrefix(name, "usr/share/ca-certificates/") && strings.HasSuffix(name, ".crt") {
			bundle.Write(bytes.TrimSpace(tree[name].Data))
			bundle.WriteByte('\n')
		}
	}
	if bundle.Len() == 0 {
		return nil, errors.New("the packages brought no certificates: ca-certificates is missing")
	}
	return bundle.Bytes(), nil
}

func addLiterals(tree layer.Tree, files []recipe.File, dirs []recipe.Directory, links []recipe.Link) error {
	for _, d := range dirs {
		mode, err := recipe.ParseMode(d.Mode, 0o755)
		if err != nil {
			return err
		}
		tree[d.Path] = layer.Dir(mode)
	}
	for _, f := range files {
		mode, err := recipe.ParseMode(f.Mode, 0o644)
		if err != nil {
			return err
		}
		tree[f.Path] = layer.File(mode, []byte(f.Content))
	}
	for _, l := range links {
		tree[l.Path] = layer.Symlink(l.To)
	}
	return nil
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// tail returns the end of a program's output: what a person needs to see of a failure.
func tail(out []byte) []byte {
	const limit = 4096
	if len(out) > limit {
		return out[len(out)-limit:]
	}
	return out
}
