// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// tagPage is how many tags are asked for at once.
const tagPage = 1000

// Tags gives the tags of a repository ("host/path"), at most about limit of them: it asks for no further page beyond that.
// A repository that does not exist has none.
func (r *Registry) Tags(ctx context.Context, repository string, limit int) ([]string, error) {
	parsed, err := r.parse(repository + ":x")
	if err != nil {
		return nil, err
	}
	tags, err := r.tags(ctx, parsed.Context(), limit)
	if err != nil && !IsNotFound(err) {
		return nil, fmt.Errorf("listing the tags of %s: %w", repository, err)
	}
	return tags, nil
}

func (r *Registry) tags(ctx context.Context, repository name.Repository, limit int) ([]string, error) {
	puller, err := remote.NewPuller(append(r.options(ctx), remote.WithPageSize(tagPage))...)
	if err != nil {
		return nil, err
	}
	lister, err := puller.Lister(ctx, repository)
	if err != nil {
		return nil, err
	}
	var tags []string
	for lister.HasNext() && len(tags) < limit {
		page, err := lister.Next(ctx)
		if err != nil {
			return nil, err
		}
		tags = append(tags, page.Tags...)
	}
	return tags, nil
}

// IsRefused says whether a registry does not do what it was asked: it does not know how, or the login may not. Some do not
// let anybody delete.
func IsRefused(err error) bool {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return false
	}
	unsupported := slices.ContainsFunc(answer.Errors, func(d transport.Diagnostic) bool {
		return d.Code == transport.UnsupportedErrorCode
	})
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return unsupported
}
