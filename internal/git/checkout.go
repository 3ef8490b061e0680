// SPDX-License-Identifier: Apache-2.0

package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/git/report"
)

// checkout writes the wanted folder of a commit.
func checkout(ctx context.Context, commit *object.Commit, req Request, files *os.Root) error {
	tree, err := commit.Tree()
	if err != nil {
		return fmt.Errorf("reading the files of commit %s: %w", commit.Hash, err)
	}
	if folder := strings.Trim(path.Clean("/"+req.Path), "/"); folder != "" {
		tree, err = tree.Tree(folder)
		if errors.Is(err, object.ErrDirectoryNotFound) || errors.Is(err, object.ErrEntryNotFound) {
			return fault(report.PathNotFound, "commit %s has no folder %q; see spec.source.git.path", commit.Hash, folder)
		}
		if err != nil {
			return fmt.Errorf("reading folder %s: %w", folder, err)
		}
	}
	c := &treeWriter{ctx: ctx, files: files, limits: req.Limits}
	return c.folder(tree, "")
}

// treeWriter writes the files of a tree within limits. What the archive refuses it writes too, such as links: the archive
// has the rules, and says what is wrong in its own words.
type treeWriter struct {
	ctx     context.Context
	files   *os.Root
	limits  archive.Limits
	entries int
	bytes   int64
}

func (c *treeWriter) folder(tree *object.Tree, at string) error {
	for _, entry := range tree.Entries {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		name, err := c.judge(at, entry.Name)
		if err != nil {
			return err
		}
		if err := c.entry(tree, entry, name); err != nil {
			return err
		}
	}
	return nil
}

// judge refuses what no checkout could hold, and more than the archive would take.
func (c *treeWriter) judge(at, name string) (string, error) {
	full := path.Join(at, name)
	if name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return "", &archive.Error{Path: at + "/" + name, Problem: "is not a name of a file"}
	}
	if len(name) > c.limits.MaxNameBytes || len(full) > c.limits.MaxPathBytes {
		return "", &archive.Error{Path: full, Problem: "is too long"}
	}
	if strings.Count(full, "/") >= c.limits.MaxDepth {
		return "", &archive.Error{Path: full, Problem: fmt.Sprintf("is more than %d levels deep", c.limits.MaxDepth)}
	}
	if c.entries++; c.entries > c.limits.MaxEntries {
		return "", fault(report.TooLarge,
			"the folder holds more than %d files and folders; keep the function in a folder of its own, see spec.source.git.path",
			c.limits.MaxEntries)
	}
	return full, nil
}

func (c *treeWriter) entry(tree *object.Tree, entry object.TreeEntry, name string) error {
	switch entry.Mode {
	case filemode.Submodule:
		return nil
	case filemode.Dir:
		if strings.EqualFold(entry.Name, ".git") {
			return nil
		}
		below, err := tree.Tree(entry.Name)
		if err != nil {
			return fmt.Errorf("reading folder %s: %w", name, err)
		}
		if err := c.files.Mkdir(name, 0o755); err != nil {
			return writeFault(name, err)
		}
		return c.folder(below, name)
	}
	file, err := tree.TreeEntryFile(&entry)
	if err != nil {
		return fmt.Errorf("reading file %s: %w", name, err)
	}
	if c.bytes += file.Size; c.bytes > c.limits.MaxTotalBytes {
		return fault(report.TooLarge, "the files have more than %d bytes together", c.limits.MaxTotalBytes)
	}
	if entry.Mode == filemode.Symlink {
		return c.link(file, name)
	}
	return c.file(file, name, entry.Mode == filemode.Executable)
}

// maxLink is the longest target of a link that Linux takes, in bytes.
const maxLink = 4095

func (c *treeWriter) link(file *object.File, name string) (err error) {
	reader, err := file.Reader()
	if err != nil {
		return fmt.Errorf("reading link %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	to, err := io.ReadAll(io.LimitReader(reader, maxLink))
	if err != nil {
		return fmt.Errorf("reading link %s: %w", name, err)
	}
	if err := c.files.Symlink(string(to), name); err != nil {
		return writeFault(name, err)
	}
	return nil
}

// lfsPointer begins a file that stands for one in Git LFS.
var lfsPointer = []byte("version https://git-lfs.github.com/spec/")

// maxLFSPointer is the size of the largest pointer, in bytes, by the specification of Git LFS.
const maxLFSPointer = 1024

func (c *treeWriter) file(file *object.File, name string, executable bool) (err error) {
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	reader, err := file.Reader()
	if err != nil {
		return fmt.Errorf("reading file %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	out, err := c.files.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return writeFault(name, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var content io.Reader = reader
	if file.Size <= maxLFSPointer {
		text, err := io.ReadAll(io.LimitReader(reader, maxLFSPointer))
		if err != nil {
			return fmt.Errorf("reading file %s: %w", name, err)
		}
		if bytes.HasPrefix(text, lfsPointer) {
			return &archive.Error{Path: name, Problem: "is kept in Git LFS, which is not supported; " +
				"put the file itself into the repository, or upload the code"}
		}
		content = bytes.NewReader(text)
	}
	if _, err := io.Copy(out, content); err != nil {
		return fmt.Errorf("writing file %s: %w", name, err)
	}
	return nil
}

// writeFault tells a tree that cannot exist as files from a disk that fails.
func writeFault(name string, err error) error {
	if errors.Is(err, os.ErrExist) {
		return &archive.Error{Path: name, Problem: "is there twice"}
	}
	return fmt.Errorf("writing %s: %w", name, err)
}
