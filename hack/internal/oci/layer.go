// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Layer is one layer of an image, from files or from an existing tar stream; exactly one of Files and Tar is set.
type Layer struct {
	// Files are put into the layer sorted by path. Folders above them are made (0755, owner 0) where not given.
	Files []File
	// Tar opens an uncompressed tar stream. Its order is kept; times, owner names and extended headers that differ
	// from run to run are dropped. It is opened more than once and must give the same bytes each time.
	Tar func() (io.ReadCloser, error)
	// Keep says which entries of Tar stay; nil keeps all. The name has no leading "./" or "/" and no trailing "/".
	Keep func(name string, h *tar.Header) bool
	// Comment is shown in the image's history.
	Comment string
}

// File is one entry of a layer.
type File struct {
	// Path is where it lies in the image, with or without a leading slash.
	Path string
	// Mode holds the permissions; with fs.ModeDir it is a folder, with fs.ModeSymlink a link to Target. fs.ModeSticky
	// is kept too.
	Mode fs.FileMode
	// Source is a file of this machine to read; when empty, Data is the content.
	Source string
	Data   []byte
	// Target is where a symbolic link points.
	Target string
	// UID and GID are the owner.
	UID, GID int
}

func (l Layer) history() v1.History {
	return v1.History{Created: v1.Time{Time: epoch()}, CreatedBy: "sless hack/internal/oci", Comment: l.Comment}
}

// build makes the layer: gzip with the fastest level, since these images travel only inside one machine.
func (l Layer) build() (v1.Layer, error) {
	var open tarball.Opener
	switch {
	case l.Tar != nil && l.Files != nil:
		return nil, errors.New("a layer is made from files or from a tar stream, not from both")
	case l.Tar != nil:
		open = l.openTar
	default:
		data, err := tarOf(l.Files)
		if err != nil {
			return nil, err
		}
		open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	}
	return tarball.LayerFromOpener(open,
		tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithMediaType(types.OCILayer))
}

// tarOf writes the files as a tar stream.
func tarOf(files []File) ([]byte, error) {
	entries, err := withFolders(files)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, f := range entries {
		if err := f.write(tw); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// withFolders cleans the paths, adds the folders above each file, and sorts, so that folders come before what they
// hold.
func withFolders(files []File) ([]File, error) {
	byPath := map[string]File{}
	for _, f := range files {
		f.Path = strings.TrimPrefix(path.Clean("/"+f.Path), "/")
		if f.Path == "" {
			return nil, errors.New("a file of a layer has no path")
		}
		if _, twice := byPath[f.Path]; twice {
			return nil, fmt.Errorf("%s is in the layer twice", f.Path)
		}
		byPath[f.Path] = f
	}
	for _, f := range files {
		for dir := parent(path.Clean("/" + f.Path)); dir != ""; dir = parent("/" + dir) {
			above, there := byPath[dir]
			if there && !above.Mode.IsDir() {
				return nil, fmt.Errorf("%s is a file and a folder at once", dir)
			}
			if !there {
				byPath[dir] = File{Path: dir, Mode: fs.ModeDir | 0o755}
			}
		}
	}
	entries := make([]File, 0, len(byPath))
	for _, f := range byPath {
		entries = append(entries, f)
	}
	slices.SortFunc(entries, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return entries, nil
}

// parent gives the folder of an absolute path without its leading slash, "" for the root.
func parent(p string) string {
	return strings.TrimPrefix(path.Dir(p), "/")
}

func (f File) write(tw *tar.Writer) error {
	h := &tar.Header{
		Name: f.Path, Mode: int64(f.Mode.Perm()), Uid: f.UID, Gid: f.GID, ModTime: epoch(), Format: tar.FormatPAX,
	}
	if f.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	data := f.Data
	switch {
	case f.Mode.IsDir():
		h.Typeflag, h.Name, data = tar.TypeDir, f.Path+"/", nil
	case f.Mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname, h.Mode, data = tar.TypeSymlink, f.Target, 0o777, nil
	case f.Mode.IsRegular() || f.Mode.Type() == 0:
		h.Typeflag = tar.TypeReg
		if f.Source != "" {
			var err error
			if data, err = os.ReadFile(f.Source); err != nil {
				return err
			}
		}
		h.Size = int64(len(data))
	default:
		return fmt.Errorf("cannot put a file of mode %s into a layer", f.Mode)
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err := tw.Write(data)
	return err
}
