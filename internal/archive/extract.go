// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Extract unpacks the archive r into the folder dir, which must exist. Nothing is written outside dir, whatever the
// archive or dir hold. Only files and folders are taken, no links and no devices; files get mode 0644 or 0755, folders
// 0755, whatever the umask, so that any user can read them. A file that is there already is replaced, so that an
// extraction that was cut short can be repeated.
//
// An archive that breaks a limit or a rule gives an *Error; what was unpacked before stays. The limits are those of
// the source: a prefix is allowed on top.
func Extract(r io.Reader, dir string, limits Limits) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening target folder: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()

	limits = limits.withDefaults().withPrefix()
	content, err := newStream(r, limits.maxTarBytes())
	if err != nil {
		return err
	}
	x := &extractor{root: root, paths: newPathSet(limits), limit: limits.MaxTotalBytes, left: limits.MaxTotalBytes}
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return content.finish()
		}
		if err != nil {
			return content.explain(err)
		}
		if err := x.extract(header, reader, content); err != nil {
			return err
		}
	}
}

type extractor struct {
	root  *os.Root
	paths *pathSet
	limit int64
	left  int64 // bytes of content that may still come
	last  string
}

func (x *extractor) extract(header *tar.Header, content io.Reader, source *stream) error {
	switch header.Typeflag {
	case tar.TypeDir:
		name := strings.TrimSuffix(header.Name, "/")
		if err := x.paths.add(name, true); err != nil {
			return err
		}
		return x.makeFolders(name + "/")
	case tar.TypeReg:
		if err := x.paths.add(header.Name, false); err != nil {
			return err
		}
		if header.Size > x.left {
			return sourceError("has more than %d bytes", x.limit)
		}
		x.left -= header.Size
		if err := x.makeFolders(header.Name); err != nil {
			return err
		}
		return x.writeFile(header, content, source)
	}
	return pathError(header.Name, "is %s; only files and folders are taken", typeName(header.Typeflag))
}

// makeFolders makes every folder that is named in front of a slash in name.
func (x *extractor) makeFolders(name string) error {
	end := strings.LastIndexByte(name, '/')
	if end < 0 || name[:end] == x.last {
		return nil
	}
	for i, r := range name {
		if r == '/' && !strings.HasPrefix(x.last+"/", name[:i+1]) {
			if err := x.makeFolder(name[:i]); err != nil {
				return fmt.Errorf("making folder: %w", err)
			}
		}
	}
	x.last = name[:end]
	return nil
}

func (x *extractor) makeFolder(name string) error {
	err := x.root.Mkdir(name, dirMode)
	if errors.Is(err, fs.ErrExist) {
		info, statErr := x.root.Lstat(name)
		switch {
		case statErr != nil:
			return statErr
		case info.IsDir():
			err = nil
		default:
			if err := x.root.Remove(name); err != nil {
				return err
			}
			err = x.root.Mkdir(name, dirMode)
		}
	}
	if err != nil {
		return err
	}
	return x.root.Chmod(name, dirMode) // the umask has no say
}

func (x *extractor) writeFile(header *tar.Header, content io.Reader, source *stream) (err error) {
	mode := fs.FileMode(fileMode)
	if header.Mode&0o111 != 0 {
		mode = execMode
	}
	file, err := x.createFile(header.Name, mode)
	if err != nil {
		return fmt.Errorf("making file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	target := &targetWriter{w: file}
	if _, err := io.Copy(target, content); err != nil {
		if target.err != nil {
			return fmt.Errorf("writing file: %w", target.err)
		}
		return source.explain(err)
	}
	return file.Chmod(mode) // the umask has no say
}

func (x *extractor) createFile(name string, mode fs.FileMode) (*os.File, error) {
	const flags = os.O_CREATE | os.O_EXCL | os.O_WRONLY
	file, err := x.root.OpenFile(name, flags, mode)
	if !errors.Is(err, fs.ErrExist) {
		return file, err
	}
	if err := x.root.Remove(name); err != nil {
		return nil, err
	}
	return x.root.OpenFile(name, flags, mode)
}

// targetWriter remembers why its writer failed.
type targetWriter struct {
	w   io.Writer
	err error
}

func (t *targetWriter) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	if err != nil {
		t.err = err
	}
	return n, err
}

func typeName(flag byte) string {
	switch flag {
	case tar.TypeLink:
		return "a hard link"
	case tar.TypeSymlink:
		return "a symbolic link"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a named pipe"
	}
	return fmt.Sprintf("an entry of type %q", flag)
}
