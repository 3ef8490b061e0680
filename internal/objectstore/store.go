// SPDX-License-Identifier: Apache-2.0

// Package objectstore keeps the archives of function sources in a store that speaks the S3 protocol.
//
// Objects are small (at most a few hundred MiB), are written once under a key that holds their SHA-256, and are read
// back with that digest checked. What is used of S3 is kept to what every implementation has: a single PUT of known
// size, GET, HEAD and DELETE.
package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/naeel/sless/internal/archive"
)

// ErrNotFound says that there is no object with the key.
var ErrNotFound = errors.New("object not found")

// Info describes a stored object.
type Info struct {
	// Size is the length of the content in bytes.
	Size int64
	// LastModified is when it was stored, by the caller's clock and to about a second.
	LastModified time.Time
	// Metadata is what Put was given. Keys are in lower case.
	Metadata map[string]string
}

// Store keeps objects. It is safe for concurrent use. IsUnavailable tells errors that go away by themselves.
type Store interface {
	// Put stores exactly size bytes of r under key, in place of what was there. Readers see the old or the new object,
	// never a part. A store that did not answer is tried again by itself only when r can seek.
	Put(ctx context.Context, key string, r io.Reader, size int64, meta map[string]string) error
	// Get opens the object. The caller closes it. The content is not verified, see OpenVerified. ErrNotFound when there is
	// none.
	Get(ctx context.Context, key string) (io.ReadCloser, Info, error)
	// Stat describes the object. ErrNotFound when there is none.
	Stat(ctx context.Context, key string) (Info, error)
	// Delete removes the object. It is no error when there is none.
	Delete(ctx context.Context, key string) error
	// List gives the objects whose keys begin with prefix, in the order of their keys. It asks for 1000 at a time and for
	// no more than are taken. An error ends it.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
}

// Object is an entry of a list.
type Object struct {
	Key string
	// Size is the length of the content in bytes.
	Size int64
	// LastModified is when it was stored, as in Info.
	LastModified time.Time
}

// Ends of the keys of code and of what a review said about it.
const (
	CodeSuffix   = ".tar.gz"
	ReviewSuffix = ".review.json"
)

// CodeKey gives the key for the source of a function in a user namespace. The digest may have its "sha256:".
func CodeKey(namespace, digest string) string {
	return namespace + "/" + strings.TrimPrefix(digest, "sha256:") + CodeSuffix
}

// ReviewKey gives the key for the verdicts about that source. It exists as long as the source is of interest, also when
// the source itself was refused and never stored.
func ReviewKey(namespace, digest string) string {
	return namespace + "/" + strings.TrimPrefix(digest, "sha256:") + ReviewSuffix
}

// CodePrefix begins the keys of a user namespace.
func CodePrefix(namespace string) string { return namespace + "/" }

// OpenVerified opens the object whose content has the digest ("sha256:" and 64 hex digits, or the digits alone).
// Reading fails with an *archive.DigestError, before the last byte is handed out, when the content is another one; so
// nothing may be done with it before io.EOF. An object of more than limit bytes is refused with a *TooLargeError.
func OpenVerified(ctx context.Context, store Store, key, digest string, limit int64) (io.ReadCloser, Info, error) {
	content, info, err := store.Get(ctx, key)
	if err != nil {
		return nil, Info{}, err
	}
	verified, err := verifiedContent(content, info.Size, digest, limit)
	if err != nil {
		return nil, Info{}, errors.Join(fmt.Errorf("object %s: %w", key, err), content.Close())
	}
	return verified, info, nil
}

func verifiedContent(content io.ReadCloser, size int64, digest string, limit int64) (io.ReadCloser, error) {
	if size > limit {
		return nil, &TooLargeError{Size: size, Limit: limit}
	}
	return archive.Verify(content, digest, size)
}

// TooLargeError says that an object is larger than what its reader takes.
type TooLargeError struct {
	Size, Limit int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("content has %d bytes, more than the limit of %d", e.Size, e.Limit)
}
