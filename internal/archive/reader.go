// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// stream is the unpacked content of a gzip file of one member, bounded in length. It tells damaged content, which is
// the fault of the archive, from a source that could not be read.
type stream struct {
	source *sourceReader
	buffer *bufio.Reader
	gzip   *gzip.Reader
	limit  int64
	left   int64
}

func newStream(r io.Reader, limit int64) (*stream, error) {
	s := &stream{source: &sourceReader{r: r}, limit: limit, left: limit}
	s.buffer = bufio.NewReader(s.source)
	var err error
	if s.gzip, err = gzip.NewReader(s.buffer); err != nil {
		return nil, s.explain(err)
	}
	s.gzip.Multistream(false)
	return s, nil
}

func (s *stream) Read(p []byte) (int, error) {
	// One byte over the limit is asked for, so that a stream that is just long enough ends with io.EOF.
	if int64(len(p)) > s.left+1 {
		p = p[:s.left+1]
	}
	n, err := s.gzip.Read(p)
	if int64(n) > s.left {
		n, s.left = int(s.left), 0
		return n, sourceError("has more than %d bytes unpacked", s.limit)
	}
	s.left -= int64(n)
	return n, err
}

// finish reads what is left, which proves the checksum, and refuses data after the end.
func (s *stream) finish() error {
	if _, err := io.Copy(io.Discard, s); err != nil {
		return s.explain(err)
	}
	switch _, err := s.buffer.Peek(1); {
	case err == nil:
		return sourceError("has data after the end of its archive")
	case !errors.Is(err, io.EOF):
		return s.explain(err)
	}
	return nil
}

// explain turns an error of the decoders into an *Error, unless the source could not be read.
func (s *stream) explain(err error) error {
	var known *Error
	switch {
	case s.source.err != nil:
		return fmt.Errorf("reading archive: %w", s.source.err)
	case errors.As(err, &known):
		return err
	}
	return sourceError("is no readable tar.gz archive: %v", err)
}

// sourceReader remembers why its reader failed.
type sourceReader struct {
	r   io.Reader
	err error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
