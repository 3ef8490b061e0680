// SPDX-License-Identifier: Apache-2.0

// Package archive turns the source of a function into one canonical tar.gz and back.
//
// The archive is canonical: the same files give the same bytes, so its SHA-256 names the source. It is also a valid OCI
// image layer, so an image is made by appending the archive as it is, without unpacking or packing anything again:
//
//   - files in byte order of their paths, each folder once, directly before the first file in it; no empty folders
//   - owner 0:0 without names, modes 0644 (0755 for executables) and 0755 for folders
//   - modification time one second after the Unix epoch (some programs read 0 as "no time")
//   - plain or PAX tar headers, a gzip header without name and time, one fixed compression level
//
// The compressor is a module pinned in go.mod and not the one of the Go release: an upgrade of the compiler must not
// give every function a new digest. A golden test holds the digest; a change there means that every image is made anew.
//
// Sources are maps (FromFiles), zip files (FromZip) and folders (FromDir). The same files give the same archive
// whichever of them they come from. Paths are judged by the same rules on the way in and on the way out (Extract). See
// Limits and Error.
package archive

import (
	"bytes"
	"io"
	"strings"
)

// CodePrefix is the Options.Prefix of every archive of a function's code, and so the folder of the code in the function's image.
// The digest of code depends on it: whoever packs, reads or changes such an archive takes it from here.
const CodePrefix = "app/"

// Archive is a canonical archive in memory.
type Archive struct {
	// Digest is the SHA-256 of Data, as "sha256:" and 64 hex digits. It is the digest of the OCI layer.
	Digest string
	// DiffID is the SHA-256 of the tar inside Data in the same form. It is the diff ID of the OCI layer.
	DiffID string
	// Data is the gzip stream.
	Data []byte
}

// Summary is what is known of an archive once it is written.
type Summary struct {
	// Digest is the SHA-256 of the gzip stream, as "sha256:" and 64 hex digits. It is the digest of the OCI layer.
	Digest string
	// DiffID is the SHA-256 of the tar inside in the same form. It is the diff ID of the OCI layer.
	DiffID string
	// Size is the number of bytes of the gzip stream.
	Size int64
	// Entries is the number of files and folders in the archive, the folders of Options.Prefix left out.
	Entries int
	// UnpackedBytes is the number of bytes of all file contents together.
	UnpackedBytes int64
}

// Options say how an archive is made.
type Options struct {
	// Prefix is the folder that every file is put under, with or without the slash at its end: CodePrefix for the
	// code of a function, "" for a build context. At most 4 levels; the prefix does not count for the limits.
	Prefix string
	// Limits bound what is taken. Fields that are zero are taken from DefaultLimits.
	Limits Limits
}

// FromFiles makes the canonical archive of files, a map of slash-separated relative paths to contents. Every file gets
// the mode 0644, also one that starts with "#!": a map carries no modes, and the runtimes load files, they do not
// execute them. An unacceptable path, or a map that is empty or over a limit, gives an *Error.
func FromFiles(files map[string]string, opt Options) (*Archive, error) {
	entries := make([]entry, 0, len(files))
	for name, content := range files {
		entries = append(entries, entry{
			path: name,
			size: int64(len(content)),
			open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil },
		})
	}
	var buf bytes.Buffer
	sum, err := writeEntries(&buf, entries, opt)
	if err != nil {
		return nil, err
	}
	return &Archive{Digest: sum.Digest, DiffID: sum.DiffID, Data: buf.Bytes()}, nil
}
