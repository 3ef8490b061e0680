// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/gateway"
	"github.com/naeel/sless/internal/objectstore"
)

const (
	// uploadTimeout bounds an upload as a whole.
	uploadTimeout = 15 * time.Minute
	// stallTimeout bounds the wait for the next part of an upload.
	stallTimeout = 30 * time.Second
)

// zipTypes are the media types of an upload. A client need not name one.
var zipTypes = []string{"", "application/zip", "application/octet-stream", "application/x-zip-compressed"}

// uploadAnswer is the answer to an upload.
type uploadAnswer struct {
	// SHA256 and SizeBytes are those of the stored archive and not of the zip, as in spec.source.upload.
	SHA256    string `json:"sha256"`
	SizeBytes int64  `json:"sizeBytes"`
	// Entries is the number of files and folders in it.
	Entries int `json:"entries"`
	// Unchanged means that the Function had this code before.
	Unchanged bool `json:"unchanged"`
	// Warnings are sentences about code that was taken, such as that it was not reviewed.
	Warnings []string `json:"warnings,omitempty"`
}

// upload takes a zip, has it reviewed, stores its canonical archive and points the Function at it. The Function is changed last and in
// one step, so it never names code that is not there, and of two uploads at once the one that ends last wins.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) error {
	if err := checkUpload(r); err != nil {
		return err
	}
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	ctx, cancel := context.WithTimeout(r.Context(), uploadTimeout)
	defer cancel()
	fn, err := s.uploadTarget(ctx, namespace, name)
	if err != nil {
		return err
	}
	if _, ok := s.uploads.Acquire(namespace); !ok {
		return &Error{
			Status: http.StatusTooManyRequests, RetryAfter: busyRetryAfter,
			Message: "too many uploads are being worked on; try again",
		}
	}
	defer s.uploads.Release(namespace)

	code, summary, err := s.receiveCode(ctx, w, r)
	if err != nil {
		return err
	}
	defer func() { _ = code.Close() }()
	warnings, err := s.review(ctx, fn, code, summary)
	if err != nil {
		return err
	}
	s.cfg.Log.Info("Storing uploaded code", "function", klog.KObj(fn), "digest", summary.Digest,
		"bytes", summary.Size, "requestID", w.Header().Get(gateway.HeaderRequestID))
	stored := objectstore.Archive{
		Key: objectstore.CodeKey(namespace, summary.Digest), Content: code, Size: summary.Size,
	}
	refreshed, err := s.storeCode(ctx, stored)
	if err != nil {
		return err
	}
	digits := strings.TrimPrefix(summary.Digest, "sha256:")
	if err := s.setUpload(ctx, fn, digits, summary.Size); err != nil {
		return err
	}
	if refreshed {
		// The code was old enough to be cleaned up just when it came again.
		if _, err := s.storeCode(ctx, stored); err != nil {
			return err
		}
	}
	writeJSON(w, http.StatusOK, uploadAnswer{
		SHA256: digits, SizeBytes: summary.Size, Entries: summary.Entries,
		Unchanged: fn.Spec.Source.Upload.SHA256 == digits, Warnings: warnings,
	})
	return nil
}

// checkUpload judges the header of an upload.
func checkUpload(r *http.Request) error {
	mediaType := r.Header.Get("Content-Type")
	if parsed, _, err := mime.ParseMediaType(mediaType); err == nil {
		mediaType = parsed
	}
	if !slices.Contains(zipTypes, mediaType) {
		return fail(http.StatusUnsupportedMediaType,
			"the body must be a zip file as it is: send it with Content-Type: application/zip")
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return fail(http.StatusUnsupportedMediaType, "the body must not have a Content-Encoding")
	}
	if r.ContentLength > archive.DefaultLimits.MaxZipBytes {
		return tooLarge()
	}
	return nil
}

func tooLarge() error {
	return fail(http.StatusRequestEntityTooLarge, "the zip file is larger than %d MiB, which is the limit",
		archive.DefaultLimits.MaxZipBytes>>20)
}

// receiveCode makes the canonical archive of the zip in the body. The caller closes the file, which starts at its
// beginning.
func (s *Server) receiveCode(ctx context.Context, w http.ResponseWriter, r *http.Request) (
	code *os.File, summary archive.Summary, err error,
) {
	zipFile, size, err := s.spool(w, r)
	if err != nil {
		return nil, summary, err
	}
	defer func() { _ = zipFile.Close() }()
	if code, err = s.tempFile(); err != nil {
		return nil, summary, err
	}
	summary, err = archive.FromZip(zipFile, size, &contextWriter{ctx: ctx, w: code}, archive.Options{Prefix: archive.CodePrefix})
	if err != nil {
		return nil, summary, errors.Join(explainZip(err), code.Close())
	}
	return code, summary, nil
}

func explainZip(err error) error {
	if problem, ok := errors.AsType[*archive.Error](err); ok {
		return fail(http.StatusBadRequest, "%s", problem.Error())
	}
	return explainDisk(err)
}

// storeCode puts an archive into the store unless it is there. refreshed is as in objectstore.Keep.
func (s *Server) storeCode(ctx context.Context, code objectstore.Archive) (refreshed bool, err error) {
	refreshed, err = objectstore.Keep(ctx, s.cfg.Store, code, s.cfg.RefreshAfter, s.cfg.Now())
	if objectstore.IsRefused(err) {
		return false, &Error{
			Status:  http.StatusServiceUnavailable,
			Message: "the object store refuses the code, which waiting does not change; tell the operator: the gateway's log says why",
			cause:   objectstore.Explain(err),
		}
	}
	if err != nil {
		return false, platformDown("the object store does not take the code now; try again", err)
	}
	return refreshed, nil
}

// contextWriter stops a long write when nobody waits for it any more.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

// Write writes, or gives the reason why the context ended.
func (c *contextWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}
