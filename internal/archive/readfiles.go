// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
)

// ReadFiles gives the contents of those of the named files that the archive r has; the others are missing in the map. It
// also gives the SHA-256 of the tar inside, as "sha256:" and 64 hex digits, which is the diff ID of an OCI layer.
// The names are those of the source, without opt.Prefix. A named file of more than maxBytes gives an *Error, and so
// does a damaged archive or one with more bytes than the limits allow. The archive is read to its end, so that a reader
// given by Verify has the last word about it. The paths in it are not judged again.
func ReadFiles(r io.Reader, names []string, maxBytes int64, opt Options) (
	files map[string][]byte, diffID string, err error,
) {
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	files = map[string][]byte{}
	sum := sha256.New()
	isWanted := func(name string) bool { return wanted[name] }
	err = eachFile(r, sum, opt, isWanted, func(name string, size int64, content io.Reader) (err error) {
		if size > maxBytes {
			return pathError(name, "has more than %d bytes", maxBytes)
		}
		files[name], err = io.ReadAll(content)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return files, digestOf(sum), nil
}

// eachFile hands those regular files of the archive r whose names pick takes to visit, and reads r to its end. The tar inside
// is copied to unpacked, which must not fail. Names are those of the source, without opt.Prefix. A picked name that appears
// twice gives an *Error; an error of visit ends the reading.
func eachFile(
	r io.Reader, unpacked io.Writer, opt Options, pick func(name string) bool, visit func(name string, size int64, content io.Reader) error,
) error {
	prefix, err := checkPrefix(opt.Prefix)
	if err != nil {
		return err
	}
	content, err := newStream(r, opt.Limits.TarBytes())
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for reader := tar.NewReader(io.TeeReader(content, unpacked)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			// What follows the end of the tar belongs to the stream all the same.
			if _, err := io.Copy(unpacked, content); err != nil {
				return content.explain(err)
			}
			return content.finish()
		}
		if err != nil {
			return content.explain(err)
		}
		name, isBelow := strings.CutPrefix(header.Name, prefix)
		if !isBelow || header.Typeflag != tar.TypeReg || !pick(name) {
			continue
		}
		if seen[name] {
			return pathError(name, "appears twice")
		}
		seen[name] = true
		if err := visit(name, header.Size, reader); err != nil {
			return content.explain(err)
		}
	}
}
