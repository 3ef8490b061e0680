// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"errors"
	"io"
	"strings"
)

// ReadFiles gives the contents of those of the named files that the archive r has; the others are missing in the map.
// The names are those of the source, without opt.Prefix. A named file of more than maxBytes gives an *Error, and so
// does a damaged archive or one with more bytes than the limits allow. The archive is read to its end, so that a reader
// given by Verify has the last word about it. The paths in it are not judged again.
func ReadFiles(r io.Reader, names []string, maxBytes int64, opt Options) (map[string][]byte, error) {
	prefix, err := checkPrefix(opt.Prefix)
	if err != nil {
		return nil, err
	}
	content, err := newStream(r, opt.Limits.withDefaults().withPrefix().maxTarBytes())
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	files := map[string][]byte{}
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, content.explain(err)
		}
		name, isBelow := strings.CutPrefix(header.Name, prefix)
		if !isBelow || !wanted[name] || header.Typeflag != tar.TypeReg {
			continue
		}
		if _, found := files[name]; found {
			return nil, pathError(name, "appears twice")
		}
		if header.Size > maxBytes {
			return nil, pathError(name, "has more than %d bytes", maxBytes)
		}
		if files[name], err = io.ReadAll(reader); err != nil {
			return nil, content.explain(err)
		}
	}
	if err := content.finish(); err != nil {
		return nil, err
	}
	return files, nil
}
