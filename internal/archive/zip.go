// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// minRatioBytes is how large something must be before MaxZipRatio is asked.
const minRatioBytes = 1 << 20

// FromZip writes the canonical archive of the zip in the first size bytes of r to w. Neither the zip nor the archive
// nor a file is held in memory. The frame of the zip, all names, modes and sizes are judged before the first byte is
// written, the contents while they are written; so after an error, w may have got the beginning of an archive.
//
// What counts is the directory at the end of the zip. Times, owners, comments, extra fields, order and compression of
// the entries have no influence. A file is executable when the zip was made on a system with such modes and one of its
// three executable bits is set. Folders without files are left out, and so is what macOS adds: the folder __MACOSX at
// the top and the files .DS_Store. Nothing else is left out, and a single folder at the top stays.
//
// Names are UTF-8, whether they are marked as such or not. An *Error says what is refused, among other things: data in
// front of the zip, after it or after the packed form of a file; entries that share bytes; an entry whose own header
// contradicts the directory; encryption; methods other than Store and Deflate; the zip64 format; links, devices and
// files with a set-user-ID or set-group-ID bit. Any other error is one of reading r or of writing w.
func FromZip(r io.ReaderAt, size int64, w io.Writer, opt Options) (Summary, error) {
	limits := opt.Limits.withDefaults()
	if size > limits.MaxZipBytes {
		return Summary{}, sourceError("has more than %d bytes as a zip archive", limits.MaxZipBytes)
	}
	source := &readerAt{r: r, size: size}
	files, err := readZip(source, limits)
	if err != nil {
		if source.err != nil {
			err = fmt.Errorf("reading zip: %w", source.err)
		}
		return Summary{}, err
	}
	unpacker := newZipUnpacker(source)
	entries := make([]entry, 0, len(files))
	for _, f := range files {
		entries = append(entries, entry{
			path:       strings.TrimSuffix(f.Name, "/"),
			size:       int64(f.UncompressedSize64), // 32 bits without zip64
			executable: isZipExecutable(&f.FileHeader),
			isDir:      strings.HasSuffix(f.Name, "/"),
			open:       func() (io.ReadCloser, error) { return unpacker.open(f) },
		})
	}
	return writeEntries(w, entries, opt)
}

// readZip gives the files and folders of a zip, in the order of their names, once all that can be known without
// unpacking them is judged; all but their paths.
func readZip(source *readerAt, limits Limits) ([]*zip.File, error) {
	// On macOS every file may have a twin that is left out.
	directory, err := readZipDirectory(source, source.size, 2*limits.MaxEntries)
	if err != nil {
		return nil, err
	}
	archive, err := zip.NewReader(source, source.size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // the paths are judged by this package
		return nil, sourceError("is no readable zip archive: %v", err)
	}
	spans, err := directory.match(archive.File)
	if err != nil {
		return nil, err
	}
	// In one order, so that the same files give the same error.
	slices.SortFunc(spans, func(a, b zipSpan) int {
		return cmp.Or(cmp.Compare(a.file.Name, b.file.Name), cmp.Compare(a.start, b.start))
	})
	files := make([]*zip.File, 0, len(spans))
	for i := range spans {
		if err := spans[i].readHeader(source, directory.start); err != nil {
			return nil, err
		}
		if file := spans[i].file; !isZipJunk(file.Name) {
			if problem := checkZipFile(&file.FileHeader, limits); problem != "" {
				return nil, pathError(file.Name, "%s", problem)
			}
			files = append(files, file)
		}
	}
	if err := checkZipSpans(spans); err != nil {
		return nil, err
	}
	return files, checkZipRatio(files, limits)
}

// isZipJunk finds what macOS adds to zip archives: resource forks, and the looks of folders.
func isZipJunk(name string) bool {
	return strings.HasPrefix(name, "__MACOSX/") || name == ".DS_Store" || strings.HasSuffix(name, "/.DS_Store")
}

// checkZipFile says what is wrong with an entry, its path left out, or "".
func checkZipFile(header *zip.FileHeader, limits Limits) string {
	const encrypted, strong, masked, patch = 1, 1 << 6, 1 << 13, 1 << 5
	isFolder := strings.HasSuffix(header.Name, "/")
	switch {
	case !utf8.ValidString(header.Name):
		return "is not valid UTF-8; make the zip with a program that writes UTF-8 names"
	case header.Flags&(encrypted|strong|masked) != 0:
		return "is encrypted"
	case header.Flags&patch != 0:
		return "is a patch and not a whole file"
	case header.Method != zip.Store && header.Method != zip.Deflate:
		return fmt.Sprintf("is packed with method %d; only Store (0) and Deflate (8) are taken", header.Method)
	case isFolder && header.UncompressedSize64 != 0:
		return "is a folder with content"
	case isBomb(header.CompressedSize64, header.UncompressedSize64, limits):
		return fmt.Sprintf("unpacks to more than %d times its packed size", limits.MaxZipRatio)
	}
	return checkZipMode(header, isFolder)
}

// checkZipMode looks at the file type whatever system the zip says that it comes from: who unpacks it may not care.
func checkZipMode(header *zip.FileHeader, isFolder bool) string {
	const (
		typeMask, link, folder, file = 0o170000, 0o120000, 0o040000, 0o100000
		charDevice, device           = 0o020000, 0o060000
		pipe, socket                 = 0o010000, 0o140000
		setID                        = 0o6000
		dosFolder                    = 0x10
	)
	kind := ""
	mode := header.ExternalAttrs >> 16
	switch mode & typeMask {
	case 0, file:
	case folder:
		if !isFolder {
			return "is marked as a folder, but its name has no / at the end"
		}
	case link:
		kind = "a symbolic link"
	case charDevice, device:
		kind = "a device"
	case pipe:
		kind = "a named pipe"
	case socket:
		kind = "a socket"
	default:
		kind = fmt.Sprintf("of the unknown type %o", mode&typeMask)
	}
	switch {
	case kind != "":
		return "is " + kind + "; only files and folders are taken"
	case isFolder:
		return ""
	case hasUnixModes(header) && mode&setID != 0:
		return "has a set-user-ID or set-group-ID bit"
	case !hasUnixModes(header) && header.ExternalAttrs&dosFolder != 0:
		return "is marked as a folder, but its name has no / at the end"
	}
	return ""
}

// hasUnixModes says whether the upper half of the attributes is a mode. Windows has flags of its own there.
func hasUnixModes(header *zip.FileHeader) bool {
	const unix, macOS = 3, 19
	system := header.CreatorVersion >> 8
	return system == unix || system == macOS
}

func isZipExecutable(header *zip.FileHeader) bool {
	return hasUnixModes(header) && header.ExternalAttrs>>16&0o111 != 0
}

func checkZipRatio(files []*zip.File, limits Limits) error {
	var packed, unpacked uint64
	for _, f := range files {
		packed += f.CompressedSize64
		unpacked += f.UncompressedSize64
	}
	if isBomb(packed, unpacked, limits) {
		return sourceError("unpacks to more than %d times its packed size", limits.MaxZipRatio)
	}
	return nil
}

func isBomb(packed, unpacked uint64, limits Limits) bool {
	return unpacked > minRatioBytes && unpacked > packed*uint64(limits.MaxZipRatio)
}
