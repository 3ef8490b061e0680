// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"errors"
	"fmt"
	"io"
)

// errShortSource is the reason when a reader ends early.
var errShortSource = errors.New("there is less content than announced")

// source is the content of an upload. It keeps the error of its reader apart from those of the connection: the HTTP
// client wraps both alike, but only the latter say something about the store.
type source struct {
	r    io.Reader
	left int64
	err  error
}

func newSource(r io.Reader, size int64) *source {
	return &source{r: r, left: size}
}

// reader gives what is handed to the client. What can seek is given as it is, so that the client can start again; of
// anything else no more than Read is shown, so that the client does not close it.
func (s *source) reader() io.Reader {
	if seeker, ok := s.r.(interface {
		io.ReaderAt
		io.ReadSeeker
	}); ok {
		return seeker
	}
	return s
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.left -= int64(n)
	switch {
	case errors.Is(err, io.EOF) && s.left > 0:
		err = errShortSource
		s.err = err
	case err != nil && !errors.Is(err, io.EOF):
		s.err = err
	}
	return n, err
}

// explain gives the error of the reader if there was one, and err otherwise.
func (s *source) explain(err error) error {
	if s.err != nil {
		return fmt.Errorf("reading the content: %w", s.err)
	}
	return err
}
