// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/validator"
)

// reviewRetryAfter is longer than a review without a verdict stands.
const reviewRetryAfter = 35 * time.Second

// review lets the gate judge uploaded code, before anything is stored or changed. It returns warnings for the client.
func (s *Server) review(
	ctx context.Context, fn *v1alpha1.Function, code *os.File, summary archive.Summary,
) (warnings []string, err error) {
	verdict, err := s.cfg.Review.Review(ctx, validator.Submission{
		Namespace: fn.Namespace, Name: fn.Name, Runtime: fn.Spec.Runtime, Digest: summary.Digest,
		Files: func(context.Context) (map[string]string, error) {
			return validator.ReadArchive(io.NewSectionReader(code, 0, summary.Size))
		},
	})
	if err != nil {
		return nil, explainDisk(err)
	}
	switch {
	case verdict.Outcome == validator.Rejected:
		s.tellRefusal(fn, summary.Digest, verdict.Message)
		return nil, fail(http.StatusBadRequest, "code validation failed: %s", verdict.Message)
	case !verdict.Passes():
		return nil, &Error{
			Status: http.StatusServiceUnavailable, RetryAfter: reviewRetryAfter,
			Message: "the code cannot be reviewed now: " + verdict.Message + "; nothing was changed, try again",
			cause:   errors.New("no verdict of the code review: " + verdict.Message),
		}
	case verdict.Warning() != "":
		return []string{verdict.Warning()}, nil
	}
	return nil, nil
}

// tellRefusal sends an event about the Function. The log has its line from the gate.
func (s *Server) tellRefusal(fn *v1alpha1.Function, digest, reason string) {
	if s.cfg.Events == nil {
		return
	}
	validator.Refusal{
		Namespace: fn.Namespace, Name: fn.Name, UID: fn.UID, Digest: digest,
		Note: fmt.Sprintf("the review refused the uploaded code %s, and nothing was changed: %s", digest, reason),
	}.Tell(s.cfg.Events)
}
