// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/naeel/sless/internal/archive"
)

// spool writes the body of an upload to a file, because a zip is read from its end. The caller closes the file.
func (s *Server) spool(w http.ResponseWriter, r *http.Request) (file *os.File, size int64, err error) {
	if file, err = s.tempFile(); err != nil {
		return nil, 0, err
	}
	body := &bodyReader{
		r: http.MaxBytesReader(w, r.Body, archive.DefaultLimits.MaxZipBytes), conn: http.NewResponseController(w),
		end: time.Now().Add(uploadTimeout),
	}
	size, err = io.Copy(file, body)
	body.finish()
	switch {
	case body.err != nil:
		err = explainBody(body.err)
	case err != nil:
		err = explainDisk(err)
	case size == 0:
		err = fail(http.StatusBadRequest, "the body is empty; it must be a zip file")
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, size, nil
}

// tempFile makes a file without a name: it is gone when it is closed, also by the end of the program.
func (s *Server) tempFile() (*os.File, error) {
	file, err := os.CreateTemp(s.cfg.UploadDir, "upload-*")
	if err != nil {
		return nil, fmt.Errorf("making a temporary file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("making a temporary file: %w", err), file.Close())
	}
	return file, nil
}

// bodyReader reads the body of a request. It gives up when the client stalls or takes too long, and it keeps its error
// apart from those of where the body is written to.
type bodyReader struct {
	r    io.Reader
	conn *http.ResponseController
	end  time.Time
	err  error
}

// Read reads a part of the body.
func (b *bodyReader) Read(p []byte) (int, error) {
	deadline := time.Now().Add(stallTimeout)
	if deadline.After(b.end) {
		deadline = b.end
	}
	_ = b.conn.SetReadDeadline(deadline) // a server without deadlines has its own bounds
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// finish takes the deadline away: the server goes on reading, to see whether the client is still there. After a failure
// it stays, so that what is left of the body is not waited for.
func (b *bodyReader) finish() {
	if b.err == nil {
		_ = b.conn.SetReadDeadline(time.Time{})
	}
}

func explainBody(err error) error {
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail(http.StatusRequestTimeout, "the body did not arrive in time")
	default:
		return fail(http.StatusBadRequest, "the body could not be read to its end")
	}
}

func explainDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return platformDown("the gateway has no room for the upload now; try again", err)
	}
	return fmt.Errorf("working on an upload: %w", err)
}
