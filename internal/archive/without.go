// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Without copies the canonical archive r to w, leaving out the named files. The result is canonical too: it is the archive
// that a source without these files gives. The names are those of the source, without opt.Prefix. It works in constant
// memory. A damaged archive, one that is not canonical, one with nothing left, or one with more bytes than the limits
// allow gives an *Error.
func Without(r io.Reader, w io.Writer, names []string, opt Options) (Summary, error) {
	prefix, err := checkPrefix(opt.Prefix)
	if err != nil {
		return Summary{}, err
	}
	content, err := newStream(r, opt.Limits.TarBytes())
	if err != nil {
		return Summary{}, err
	}
	aw, files, unpacked := newWriter(w), 0, int64(0)
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Summary{}, content.explain(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue // the writer makes folders from the files
		}
		name, isBelow := strings.CutPrefix(header.Name, prefix)
		if header.Typeflag != tar.TypeReg || !isBelow || aw.last >= header.Name {
			return Summary{}, pathError(header.Name, "is not where a canonical archive has it")
		}
		if slices.Contains(names, name) {
			continue
		}
		if err := aw.add(copiedEntry(header, reader, content)); err != nil {
			return Summary{}, err
		}
		files, unpacked = files+1, unpacked+header.Size
	}
	if err := content.finish(); err != nil {
		return Summary{}, err
	}
	if files == 0 {
		return Summary{}, sourceError("has no files")
	}
	sum, err := aw.close()
	sum.Entries -= strings.Count(prefix, "/")
	sum.UnpackedBytes = unpacked
	return sum, err
}

// copiedEntry is a file of an archive as an entry of another one.
func copiedEntry(header *tar.Header, reader io.Reader, source *stream) entry {
	return entry{
		path: header.Name, size: header.Size, executable: header.Mode&0o111 != 0,
		open: func() (io.ReadCloser, error) {
			return io.NopCloser(explainedReader{reader: reader, source: source}), nil
		},
	}
}

// explainedReader tells a damaged source from one that could not be read.
type explainedReader struct {
	reader io.Reader
	source *stream
}

func (r explainedReader) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("copying: %w", r.source.explain(err))
	}
	return n, err
}
