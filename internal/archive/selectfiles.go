// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"errors"
	"io"
	"strings"
)

// SelectFiles gives the contents of those files of the archive r whose names pick takes, and how many bytes they have
// together. The names are those of the source, without opt.Prefix. When they have more than maxTotal bytes together, the
// map is nil and the total tells how much there is: the contents are bounded, whatever the archive holds. A damaged
// archive, or one with more bytes than the limits allow, gives an *Error. As with ReadFiles, the archive is read to its
// end, so that a reader given by Verify has the last word about it, and the paths in it are not judged again.
func SelectFiles(r io.Reader, pick func(name string) bool, maxTotal int64, opt Options) (
	files map[string][]byte, total int64, err error,
) {
	prefix, err := checkPrefix(opt.Prefix)
	if err != nil {
		return nil, 0, err
	}
	content, err := newStream(r, opt.Limits.withDefaults().withPrefix().maxTarBytes())
	if err != nil {
		return nil, 0, err
	}
	files = map[string][]byte{}
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, content.explain(err)
		}
		name, isBelow := strings.CutPrefix(header.Name, prefix)
		if !isBelow || header.Typeflag != tar.TypeReg || !pick(name) {
			continue
		}
		if _, found := files[name]; found {
			return nil, 0, pathError(name, "appears twice")
		}
		if files == nil || header.Size > maxTotal-total {
			files = nil
			total = min(total, content.limit) + min(header.Size, content.limit) // A header may claim anything.
			continue
		}
		total += header.Size
		if files[name], err = io.ReadAll(reader); err != nil {
			return nil, 0, content.explain(err)
		}
	}
	if err := content.finish(); err != nil {
		return nil, 0, err
	}
	return files, total, nil
}
