// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	fileMode = 0o644
	execMode = 0o755
	dirMode  = 0o755

	// compressionLevel is part of what makes the digest. Level 6 is where smaller gets markedly slower.
	compressionLevel = 6
)

// modTime is the one modification time of all entries.
var modTime = time.Unix(1, 0).UTC()

// entry is one file of a source, whatever form the source came in. Its content is opened when its turn comes and read
// once, so that an archive of any size is made in constant memory.
type entry struct {
	path       string
	size       int64
	executable bool
	isDir      bool // judged and counted, but not written: the folders in an archive come from its files
	open       func() (io.ReadCloser, error)
}

// writeEntries judges all entries before the first byte is written, then writes them in canonical order. It sorts the
// slice that it is given.
func writeEntries(w io.Writer, entries []entry, opt Options) (Summary, error) {
	prefix, err := checkPrefix(opt.Prefix)
	if err != nil {
		return Summary{}, err
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	unpacked, err := checkEntries(entries, opt.Limits.withDefaults())
	if err != nil {
		return Summary{}, err
	}
	aw := newWriter(w)
	for _, e := range entries {
		if e.isDir {
			continue
		}
		e.path = prefix + e.path
		if err := aw.add(e); err != nil {
			return Summary{}, err
		}
	}
	sum, err := aw.close()
	if err != nil {
		return Summary{}, err
	}
	sum.Entries -= strings.Count(prefix, "/")
	sum.UnpackedBytes = unpacked
	return sum, nil
}

// checkEntries gives the number of bytes of all contents together.
func checkEntries(entries []entry, limits Limits) (int64, error) {
	paths, files, left := newPathSet(limits), 0, limits.MaxTotalBytes
	for _, e := range entries {
		if err := paths.add(e.path, e.isDir); err != nil {
			return 0, err
		}
		if e.size < 0 || e.size > left {
			return 0, sourceError("has more than %d bytes", limits.MaxTotalBytes)
		}
		left -= e.size
		if !e.isDir {
			files++
		}
	}
	if files == 0 {
		return 0, sourceError("has no files")
	}
	return limits.MaxTotalBytes - left, nil
}

// checkPrefix gives the prefix with one slash at its end, or "". A wrong prefix is the fault of the program and not of
// the source, so the error is not an *Error.
func checkPrefix(prefix string) (string, error) {
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return "", nil
	}
	limits := DefaultLimits
	limits.MaxDepth = maxPrefixDepth
	if problem := checkPath(prefix, limits); problem != "" {
		return "", fmt.Errorf("archive prefix %q %s", prefix, problem)
	}
	return prefix + "/", nil
}

// writer writes canonical archives as a stream. Its caller has judged the paths and gives the files in order.
type writer struct {
	tar      *tar.Writer
	gzip     *gzip.Writer
	packed   hash.Hash
	unpacked hash.Hash
	size     int64
	entries  int
	buffer   []byte
	last     string   // path of the last file
	folders  []string // folders that the last file is in, outermost first
}

func newWriter(w io.Writer) *writer {
	aw := &writer{packed: sha256.New(), unpacked: sha256.New(), buffer: make([]byte, 64<<10)}
	// The level is a constant in range, so there is no error.
	aw.gzip, _ = gzip.NewWriterLevel(io.MultiWriter(w, aw.packed, (*byteCounter)(&aw.size)), compressionLevel)
	aw.gzip.ModTime = time.Unix(0, 0) // what gzip means by no time
	aw.tar = tar.NewWriter(io.MultiWriter(aw.gzip, aw.unpacked))
	return aw
}

// add writes one file, and before it the folders it is in that were not written yet.
func (w *writer) add(e entry) error {
	if w.last >= e.path {
		return fmt.Errorf("archive entry %q comes after %q", e.path, w.last)
	}
	w.last = e.path
	if err := w.addFolders(e.path); err != nil {
		return err
	}
	mode := int64(fileMode)
	if e.executable {
		mode = execMode
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: e.path, Mode: mode, Size: e.size}
	if err := w.writeHeader(header); err != nil {
		return err
	}
	return w.copyContent(e)
}

// addFolders writes the folders above name. In byte order everything in a folder comes in one row, so it is enough to
// remember where the last file was.
func (w *writer) addFolders(name string) error {
	level := 0
	for i, r := range name {
		if r != '/' {
			continue
		}
		folder := name[:i]
		if level >= len(w.folders) || w.folders[level] != folder {
			header := &tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: dirMode}
			if err := w.writeHeader(header); err != nil {
				return err
			}
			w.folders = append(w.folders[:level], folder)
		}
		level++
	}
	w.folders = w.folders[:level]
	return nil
}

func (w *writer) writeHeader(header *tar.Header) error {
	header.ModTime = modTime
	header.Format = tar.FormatPAX
	if err := w.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("writing header of %q: %w", header.Name, err)
	}
	w.entries++
	return nil
}

func (w *writer) copyContent(e entry) (err error) {
	content, err := e.open()
	if err != nil {
		return fmt.Errorf("opening %q: %w", e.path, err)
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	// One byte more than announced is asked for, so that a longer content is seen.
	n, err := io.CopyBuffer(w.tar, io.LimitReader(content, e.size+1), w.buffer)
	var refused *Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, tar.ErrWriteTooLong), err == nil && n != e.size:
		return pathError(e.path, "does not have the announced size of %d bytes", e.size)
	case err != nil:
		return fmt.Errorf("packing %q: %w", e.path, err)
	}
	return nil
}

func (w *writer) close() (Summary, error) {
	if err := errors.Join(w.tar.Close(), w.gzip.Close()); err != nil {
		return Summary{}, fmt.Errorf("finishing archive: %w", err)
	}
	return Summary{Digest: digestOf(w.packed), DiffID: digestOf(w.unpacked), Size: w.size, Entries: w.entries}, nil
}

// byteCounter counts what is written to it.
type byteCounter int64

func (c *byteCounter) Write(p []byte) (int, error) {
	*c += byteCounter(len(p))
	return len(p), nil
}
