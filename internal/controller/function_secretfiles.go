// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"io"
	"maps"
	"slices"

	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/runtimes"
)

// withoutSecretFiles leaves out the files that may hold credentials for package indexes: they are for the build alone, and
// the image must not carry them.
func withoutSecretFiles(files map[string]string, rt runtimes.Runtime) map[string]string {
	kept := maps.Clone(files)
	for _, name := range rt.Dependencies.Secret {
		delete(kept, name)
	}
	return kept
}

// leaveSecretFilesOut does the same to the layer of stored code. Nothing is stored a second time: the layer is made from
// the stored archive whenever it is read, and comes out the same each time.
func leaveSecretFilesOut(ctx context.Context, code *codeArchive, rt runtimes.Runtime) error {
	secret := slices.DeleteFunc(slices.Clone(rt.Dependencies.Secret), func(name string) bool {
		_, ok := code.file(name)
		return !ok
	})
	if len(secret) == 0 {
		return nil
	}
	rewrite := func(ctx context.Context, w io.Writer) (summary archive.Summary, err error) {
		err = read(ctx, code.open, func(content io.Reader) (err error) {
			summary, err = archive.Without(content, w, secret, archive.Options{Prefix: archive.CodePrefix})
			return err
		})
		return summary, err
	}
	summary, err := rewrite(ctx, io.Discard)
	if err != nil {
		return err
	}
	code.layer = image.LayerSource{
		Digest: summary.Digest, DiffID: summary.DiffID, Size: summary.Size,
		Open: func(ctx context.Context) (io.ReadCloser, error) {
			out, in := io.Pipe()
			go func() {
				_, err := rewrite(ctx, in)
				in.CloseWithError(err)
			}()
			return out, nil
		},
	}
	return nil
}
