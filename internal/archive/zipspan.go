// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/zip"
	"cmp"
	"encoding/binary"
	"slices"
)

// zipSpan is an entry of a zip and the bytes that belong to it: its header and its packed data.
type zipSpan struct {
	file       *zip.File
	start, end int64
}

// match gives the files and where they begin. Only the fields that are needed later are kept.
func (d *zipDirectory) match(files []*zip.File) ([]zipSpan, error) {
	if len(files) != len(d.records) {
		return nil, sourceError(zipDirectoryOff)
	}
	spans := make([]zipSpan, len(files))
	for i, f := range files {
		if f.Name != d.records[i].name {
			return nil, sourceError(zipDirectoryOff)
		}
		f.Extra, f.Comment = nil, ""
		spans[i] = zipSpan{file: f, start: d.records[i].header}
	}
	return spans, nil
}

// readHeader finds the end of the span and compares the header in front of the data with the record in the directory.
func (s *zipSpan) readHeader(source *readerAt, limit int64) error {
	if s.start+zipLocalLen > limit {
		return pathError(s.file.Name, "lies outside the data of the zip archive")
	}
	header := make([]byte, zipLocalLen+len(s.file.Name))
	header = header[:min(int64(len(header)), limit-s.start)]
	if err := readFullAt(source, header, s.start); err != nil {
		return err
	}
	if string(header[:4]) != zipLocalMark {
		return pathError(s.file.Name, "does not begin where the zip directory says")
	}
	nameLen, extraLen := binary.LittleEndian.Uint16(header[26:]), binary.LittleEndian.Uint16(header[28:])
	s.end = s.start + zipLocalLen + int64(nameLen) + int64(extraLen) + int64(s.file.CompressedSize64)
	switch {
	case s.end > limit:
		return pathError(s.file.Name, "reaches into the directory of the zip archive")
	case int(nameLen) != len(s.file.Name) || string(header[zipLocalLen:]) != s.file.Name:
		return pathError(s.file.Name, "has another name in its own header")
	case !sameZipHeader(header, &s.file.FileHeader):
		return pathError(s.file.Name, "has a header of its own that contradicts the zip directory")
	}
	return nil
}

// sameZipHeader compares what decides how data are unpacked. The sizes are unknown in the header of an entry that was
// written to a pipe, and somewhere else when its writer was ready for the zip64 format.
func sameZipHeader(header []byte, record *zip.FileHeader) bool {
	const encrypted, sizesFollow = 1, 1 << 3
	flags := binary.LittleEndian.Uint16(header[6:])
	if binary.LittleEndian.Uint16(header[8:]) != record.Method || (flags^record.Flags)&encrypted != 0 {
		return false
	}
	if flags&sizesFollow != 0 {
		return true
	}
	packed, unpacked := binary.LittleEndian.Uint32(header[18:]), binary.LittleEndian.Uint32(header[22:])
	return binary.LittleEndian.Uint32(header[14:]) == record.CRC32 &&
		(packed == zipUnknown32 || uint64(packed) == record.CompressedSize64) &&
		(unpacked == zipUnknown32 || uint64(unpacked) == record.UncompressedSize64)
}

// checkZipSpans refuses entries that share bytes, which make a large archive of a small zip, and a zip that does not
// begin with one of its entries. It sorts the spans. Gaps are allowed: programs that change a zip in place leave them,
// and nothing in them is read.
func checkZipSpans(spans []zipSpan) error {
	slices.SortFunc(spans, func(a, b zipSpan) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.file.Name, b.file.Name))
	})
	if len(spans) > 0 && spans[0].start != 0 {
		return sourceError("has data in front of its first entry")
	}
	for i := 1; i < len(spans); i++ {
		if spans[i].start < spans[i-1].end {
			return pathError(spans[i].file.Name, "shares bytes of the zip archive with %s", quote(spans[i-1].file.Name))
		}
	}
	return nil
}
