// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"fmt"
	"iter"

	"github.com/minio/minio-go/v7"
)

// List gives objects, see Store.
func (s *S3) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		// Without the owners of the objects, which some stores have to look up.
		opts := minio.ListObjectsOptions{Prefix: prefix, Recursive: true, FetchOwner: new(false)}
		for info := range s.client.ListObjectsIter(ctx, s.bucket, opts) {
			if info.Err != nil {
				yield(Object{}, fmt.Errorf("listing %s: %w", prefix, info.Err))
				return
			}
			if !yield(Object{Key: info.Key, Size: info.Size, LastModified: s.callersTime(info.LastModified)}, nil) {
				return
			}
		}
		// The client ends without an error when its context does.
		if err := ctx.Err(); err != nil {
			yield(Object{}, fmt.Errorf("listing %s: %w", prefix, err))
		}
	}
}
