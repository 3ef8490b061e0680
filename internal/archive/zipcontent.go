// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
)

// zipUnpacker opens the files of a zip one after the other. Its buffers are used for all of them.
type zipUnpacker struct {
	source  *readerAt
	packed  *bufio.Reader
	inflate io.ReadCloser
}

func newZipUnpacker(source *readerAt) *zipUnpacker {
	packed := bufio.NewReaderSize(nil, 64<<10)
	return &zipUnpacker{source: source, packed: packed, inflate: flate.NewReader(packed)}
}

// open gives the content of a file that is stored or deflated. The content of the file that was opened before must not
// be read any more.
func (u *zipUnpacker) open(file *zip.File) (io.ReadCloser, error) {
	raw, err := file.OpenRaw()
	if err != nil {
		return nil, u.explain(file.Name, err)
	}
	u.packed.Reset(raw)
	content := &zipContent{file: file, unpacker: u, reader: u.packed}
	if file.Method == zip.Deflate {
		// The reader is made by this package's constructor, so it can be reset, and without a dictionary it cannot fail.
		_ = u.inflate.(flate.Resetter).Reset(u.packed, nil)
		content.reader = u.inflate
	}
	return content, nil
}

// explain turns an error of the decoders into an *Error, unless the source could not be read.
func (u *zipUnpacker) explain(name string, err error) error {
	var known *Error
	switch {
	case u.source.err != nil:
		return fmt.Errorf("reading zip: %w", u.source.err)
	case errors.As(err, &known):
		return err
	}
	return pathError(name, "cannot be unpacked: %v", err)
}

// zipContent reads one file and fails unless the file has the size and the checksum that its record announces and ends
// where its packed data end. archive/zip takes a checksum of 0 for none and does not look behind the end.
type zipContent struct {
	file     *zip.File
	unpacker *zipUnpacker
	reader   io.Reader
	size     uint64
	checksum uint32
}

func (c *zipContent) Read(p []byte) (int, error) {
	n, err := c.reader.Read(p)
	c.checksum = crc32.Update(c.checksum, crc32.IEEETable, p[:n])
	c.size += uint64(n)
	switch {
	case c.size > c.file.UncompressedSize64:
		return 0, pathError(c.file.Name, "unpacks to more than the %d bytes that it announces", c.file.UncompressedSize64)
	case errors.Is(err, io.EOF):
		if err := c.check(); err != nil {
			return 0, c.unpacker.explain(c.file.Name, err)
		}
	case err != nil:
		return 0, c.unpacker.explain(c.file.Name, err)
	}
	return n, err
}

func (c *zipContent) check() error {
	switch _, err := c.unpacker.packed.Peek(1); {
	case err == nil:
		return pathError(c.file.Name, "has packed data after its end")
	case !errors.Is(err, io.EOF):
		return err
	case c.size != c.file.UncompressedSize64:
		return pathError(c.file.Name, "unpacks to %d bytes and announces %d", c.size, c.file.UncompressedSize64)
	case c.checksum != c.file.CRC32:
		return pathError(c.file.Name, "does not have the checksum that it announces")
	}
	return nil
}

func (*zipContent) Close() error { return nil }

// readerAt remembers why its reader failed. Reading past the end of the size that was promised is a failure too.
type readerAt struct {
	r    io.ReaderAt
	size int64
	err  error
}

func (r *readerAt) ReadAt(p []byte, offset int64) (int, error) {
	n, err := r.r.ReadAt(p, offset)
	switch {
	case n == len(p):
		return n, nil
	case errors.Is(err, io.EOF) && offset+int64(n) >= r.size:
		return n, io.EOF
	case err == nil || errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	r.err = err
	return n, err
}
