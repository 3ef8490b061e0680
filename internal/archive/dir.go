// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// dirBatch is how many names of a folder are held before they are judged.
const dirBatch = 256

// FromDir writes the canonical archive of the folder root, such as a git checkout, to w. No file is held in memory.
// Whatever is named .git, in any letter case and at any level, is left out, and so are folders without files; nothing
// else is. Links, devices and pipes are refused with an *Error. A file is executable when
// one of its three executable bits is set. A file that changes its size while it is read gives an *Error.
func FromDir(root *os.Root, w io.Writer, opt Options) (Summary, error) {
	walk := &dirWalk{root: root, limits: opt.Limits.withDefaults()}
	if err := walk.folder("."); err != nil {
		return Summary{}, err
	}
	return writeEntries(w, walk.entries, opt)
}

// dirWalk collects the files and folders below root. It stops at the first one too many, so that a folder of any size
// is walked in bounded memory.
type dirWalk struct {
	root    *os.Root
	limits  Limits
	entries []entry
}

func (d *dirWalk) folder(name string) (err error) {
	folder, err := openNow(d.root, name)
	if err != nil {
		return fmt.Errorf("reading folder: %w", err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	for {
		list, err := folder.ReadDir(dirBatch)
		for _, found := range list {
			if err := d.add(path.Join(name, found.Name())); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading folder: %w", err)
		}
	}
}

func (d *dirWalk) add(name string) error {
	if strings.EqualFold(path.Base(name), ".git") {
		return nil
	}
	// The depth is judged here, so that it bounds the recursion; the rest is judged in one order when all is known.
	if strings.Count(name, "/") >= d.limits.MaxDepth {
		return &Error{Path: name, Problem: checkPath(name, d.limits)}
	}
	if len(d.entries) >= d.limits.MaxEntries {
		return sourceError("has more than %d files and folders", d.limits.MaxEntries)
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return fmt.Errorf("reading folder: %w", err)
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		d.entries = append(d.entries, entry{path: name, isDir: true})
		return d.folder(name)
	case mode.IsRegular():
		d.entries = append(d.entries, entry{
			path:       name,
			size:       info.Size(),
			executable: mode&0o111 != 0,
			open:       func() (io.ReadCloser, error) { return d.open(name) },
		})
		return nil
	default:
		return pathError(name, "is %s; only files and folders are taken", modeName(mode))
	}
}

// open opens what was a regular file and must still be one. A link that has taken its place can lead to files below
// root only.
func (d *dirWalk) open(name string) (io.ReadCloser, error) {
	file, err := openNow(d.root, name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = pathError(name, "is no longer a file")
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// openNow never waits for the other end of a pipe that has taken the place of name.
func openNow(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func modeName(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "of the unknown type " + mode.Type().String()
}
