// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

const (
	zipEndLen       = 22
	zipLocatorLen   = 20
	zipRecordLen    = 46
	zipLocalLen     = 30
	zipMostComment  = 1<<16 - 1
	zipUnknown16    = 1<<16 - 1 // "see the zip64 record"
	zipUnknown32    = 1<<32 - 1
	zipLocalMark    = "PK\x03\x04"
	zipRecordMark   = "PK\x01\x02"
	zipEndMark      = "PK\x05\x06"
	zipLocatorMark  = "PK\x06\x07"
	noZip           = "is no zip archive, or not a whole one"
	needlessZip64   = "is in the zip64 format, which nothing within the limits needs"
	zipDirectoryOff = "has a zip directory that is not what its end record says"

	misplacedDirectory = "has data in front of its zip archive, or between its directory and its end"

	// maxZipDirectory bounds what the reader of the directory holds. 10,000 of the longest paths fit.
	maxZipDirectory = 16 << 20
)

// zipDirectory is where the directory of a zip lies and what its records say that archive/zip does not hand on.
type zipDirectory struct {
	start   int64
	records []zipRecord
}

// zipRecord is one record of the directory.
type zipRecord struct {
	name   string
	header int64 // offset of the header in front of the data
}

// readZipDirectory judges the frame of a zip before archive/zip reads it. archive/zip looks for the directory where it
// may be and holds as many records as follow, whatever their announced number. Here the directory ends where the end
// record begins, the end record ends where the zip ends, and the records are counted.
func readZipDirectory(r io.ReaderAt, size int64, maxRecords int) (*zipDirectory, error) {
	end, endOffset, err := readZipEnd(r, size)
	if err != nil {
		return nil, err
	}
	var (
		disks   = binary.LittleEndian.Uint32(end[4:])
		here    = binary.LittleEndian.Uint16(end[8:])
		count   = binary.LittleEndian.Uint16(end[10:])
		length  = binary.LittleEndian.Uint32(end[12:])
		offset  = binary.LittleEndian.Uint32(end[16:])
		comment = binary.LittleEndian.Uint16(end[20:])
	)
	switch {
	case endOffset+zipEndLen+int64(comment) < size:
		return nil, sourceError("has data after the end of its zip archive")
	case endOffset+zipEndLen+int64(comment) > size:
		return nil, sourceError(noZip)
	case count == zipUnknown16 || length == zipUnknown32 || offset == zipUnknown32:
		return nil, sourceError(needlessZip64)
	case disks != 0 || here != count:
		return nil, sourceError("is one part of a zip archive that was split")
	case int64(offset)+int64(length) < endOffset:
		return nil, sourceError(misplacedDirectory)
	case int64(offset)+int64(length) > endOffset:
		return nil, sourceError(zipDirectoryOff)
	case int(count) > maxRecords:
		return nil, sourceError("has more than %d entries in its zip directory", maxRecords)
	case length > maxZipDirectory:
		return nil, sourceError("has a zip directory of more than %d bytes", maxZipDirectory)
	}
	records, err := readZipRecords(io.NewSectionReader(r, int64(offset), int64(length)), int(count))
	if err != nil {
		return nil, err
	}
	return &zipDirectory{start: int64(offset), records: records}, nil
}

// readZipEnd finds the last end record, which is also the one that archive/zip takes, and gives its fixed part.
func readZipEnd(r io.ReaderAt, size int64) (record []byte, offset int64, err error) {
	tail := make([]byte, min(size, zipLocatorLen+zipEndLen+zipMostComment))
	if err := readFullAt(r, tail, size-int64(len(tail))); err != nil {
		return nil, 0, err
	}
	if len(tail) < zipEndLen {
		return nil, 0, sourceError(noZip)
	}
	at := bytes.LastIndex(tail[:len(tail)-zipEndLen+len(zipEndMark)], []byte(zipEndMark))
	if at < 0 {
		return nil, 0, sourceError(noZip)
	}
	if at >= zipLocatorLen && bytes.HasPrefix(tail[at-zipLocatorLen:], []byte(zipLocatorMark)) {
		return nil, 0, sourceError(needlessZip64)
	}
	return tail[at : at+zipEndLen], size - int64(len(tail)-at), nil
}

// readZipRecords reads exactly count records, which must fill the directory.
func readZipRecords(directory io.Reader, count int) ([]zipRecord, error) {
	var (
		buffer  = bufio.NewReader(directory)
		records = make([]zipRecord, 0, count)
		name    [1 << 16]byte
	)
	for range count {
		var fixed [zipRecordLen]byte
		if _, err := io.ReadFull(buffer, fixed[:]); err != nil {
			return nil, explainDirectory(err)
		}
		if string(fixed[:4]) != zipRecordMark {
			return nil, sourceError(zipDirectoryOff)
		}
		nameLen := binary.LittleEndian.Uint16(fixed[28:])
		if _, err := io.ReadFull(buffer, name[:nameLen]); err != nil {
			return nil, explainDirectory(err)
		}
		record, err := parseZipRecord(fixed[:], string(name[:nameLen]))
		if err != nil {
			return nil, err
		}
		records = append(records, record)
		// The extra fields and the comment of the record.
		rest := int(binary.LittleEndian.Uint16(fixed[30:])) + int(binary.LittleEndian.Uint16(fixed[32:]))
		if _, err := buffer.Discard(rest); err != nil {
			return nil, explainDirectory(err)
		}
	}
	if _, err := buffer.ReadByte(); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, err
		}
		return nil, sourceError(zipDirectoryOff)
	}
	return records, nil
}

func parseZipRecord(fixed []byte, name string) (zipRecord, error) {
	var (
		packed   = binary.LittleEndian.Uint32(fixed[20:])
		unpacked = binary.LittleEndian.Uint32(fixed[24:])
		disk     = binary.LittleEndian.Uint16(fixed[34:])
		header   = binary.LittleEndian.Uint32(fixed[42:])
	)
	switch {
	case packed == zipUnknown32 || unpacked == zipUnknown32 || header == zipUnknown32 || disk == zipUnknown16:
		return zipRecord{}, pathError(name, needlessZip64)
	case disk != 0:
		return zipRecord{}, pathError(name, "is in another part of a zip archive that was split")
	}
	return zipRecord{name: name, header: int64(header)}, nil
}

// explainDirectory tells a directory that is too short from a source that cannot be read.
func explainDirectory(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return sourceError(zipDirectoryOff)
	}
	return err
}

// readFullAt fills p from r, which has the bytes.
func readFullAt(r io.ReaderAt, p []byte, offset int64) error {
	if n, err := r.ReadAt(p, offset); n < len(p) {
		return err
	}
	return nil
}
