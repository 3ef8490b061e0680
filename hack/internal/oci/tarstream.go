// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// openTar streams the layer's tar through the filter, so that a big root file system is never held in memory.
func (l Layer) openTar() (io.ReadCloser, error) {
	src, err := l.Tar()
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() {
		err := copyTar(w, src, l.Keep)
		_ = src.Close()
		_ = w.CloseWithError(err)
	}()
	return r, nil
}

// copyTar copies a tar stream, dropping what differs from run to run and the entries that keep refuses.
//
// All times become the epoch, so byte code of Python that notes the time of its source goes stale: leave such files out
// or compile them with unchecked hashes.
func copyTar(dst io.Writer, src io.Reader, keep func(string, *tar.Header) bool) error {
	tr, tw := tar.NewReader(src), tar.NewWriter(dst)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return tw.Close()
		}
		if err != nil {
			return fmt.Errorf("reading the tar stream: %w", err)
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if name == "" || keep != nil && !keep(name, h) {
			continue
		}
		if err := tw.WriteHeader(normalHeader(name, h)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := io.CopyN(tw, tr, h.Size); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

func normalHeader(name string, h *tar.Header) *tar.Header {
	n := &tar.Header{
		Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode & 0o7777,
		Uid: h.Uid, Gid: h.Gid, Devmajor: h.Devmajor, Devminor: h.Devminor,
		ModTime: epoch(), Format: tar.FormatPAX,
	}
	switch h.Typeflag {
	case tar.TypeDir:
		n.Name += "/"
	case tar.TypeLink:
		// A hard link names another entry of the same stream, whose name was cleaned in the same way.
		n.Linkname = strings.TrimPrefix(path.Clean("/"+h.Linkname), "/")
		n.Size = 0
	}
	for key, value := range h.PAXRecords {
		// Capabilities and the like are part of the file; the rest is times and sizes that the writer sets itself.
		if strings.HasPrefix(key, "SCHILY.xattr.") {
			if n.PAXRecords == nil {
				n.PAXRecords = map[string]string{}
			}
			n.PAXRecords[key] = value
		}
	}
	return n
}
