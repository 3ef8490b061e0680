// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/internal/controller/resources"
)

// failingReader lists nothing, for a reason.
type failingReader struct {
	client.Reader
	err error
}

func (r failingReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return r.err
}

// A kind that somebody has taken out of the cluster holds no deletion up.
func TestDeleteOwnedOfAKindThatIsGone(t *testing.T) {
	t.Parallel()
	kind := resources.HTTPRouteKind
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"not in the cluster":          {err: &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}},
		"not in the cluster any more": {err: apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: "httproutes"}, "")},
		"the API server is away":      {err: errors.New("no answer"), want: true},
	} {
		err := deleteOwned(t.Context(), nil, failingReader{err: tc.err}, "uid", httpRouteList(), "sless-system")
		if (err != nil) != tc.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
