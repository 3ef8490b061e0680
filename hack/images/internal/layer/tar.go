// SPDX-License-Identifier: Apache-2.0

package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// maxTreeBytes bounds the files of one tree together. A whole root file system is about 100 MB.
	maxTreeBytes = 2 << 30
	// maxTreeEntries bounds the entries of one tree.
	maxTreeEntries = 200_000
)

// permBits are the mode bits that a layer keeps: permissions, setuid, setgid and sticky.
const permBits = 0o7777

// ReadTar reads a tar stream into a tree. Hard links become copies; devices, sockets and pipes are left out, for a
// container gets its own. A stream over 2 GiB or 200,000 entries is refused.
func ReadTar(r io.Reader) (Tree, error) {
	tree := Tree{}
	var total int64
	for tr := tar.NewReader(r); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return tree, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the archive: %w", err)
		}
		if total += header.Size; total > maxTreeBytes || len(tree) >= maxTreeEntries {
			return nil, fmt.Errorf("archive has over %d bytes or %d entries", maxTreeBytes, maxTreeEntries)
		}
		if name := Clean(header.Name); name != "" {
			if err := tree.add(name, header, tr); err != nil {
				return nil, err
			}
		}
	}
}

func (t Tree) add(name string, header *tar.Header, r io.Reader) error {
	entry := Entry{Type: header.Typeflag, Mode: header.Mode & permBits, UID: header.Uid, GID: header.Gid}
	switch header.Typeflag {
	case tar.TypeReg:
		data, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		entry.Data = data
	case tar.TypeDir:
	case tar.TypeSymlink:
		entry.Mode, entry.Link = 0o777, header.Linkname
	case tar.TypeLink:
		target, ok := t[Clean(header.Linkname)]
		if !ok {
			return fmt.Errorf("%s is a hard link to %s, which is not there", name, header.Linkname)
		}
		entry = target
	default:
		return nil
	}
	t[name] = entry
	return nil
}

// WriteTar writes the tree as a tar stream that depends on nothing but the tree.
func (t Tree) WriteTar(w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, name := range slices.SortedFunc(maps.Keys(t), compareNames) {
		entry := t[name]
		header := &tar.Header{
			Typeflag: entry.Type, Name: name, Linkname: entry.Link, Mode: entry.Mode, Uid: entry.UID, Gid: entry.GID,
			Size: int64(len(entry.Data)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
		}
		if entry.Type == tar.TypeDir {
			header.Name += "/"
		}
		if err := tw.WriteHeader(header); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		if _, err := tw.Write(entry.Data); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return tw.Close()
}

// compareNames puts a directory straight before what is in it.
func compareNames(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}
