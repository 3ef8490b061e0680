// SPDX-License-Identifier: Apache-2.0

// Package git fetches one commit of a git repository into a folder, by HTTP or SSH. It knows nothing of Kubernetes.
//
// It speaks the protocol itself, by go-git, and starts no program. It asks for the refs first, and ends there when the
// revision is a commit that is known already. Else it takes one commit without its history, never a submodule, and
// nothing that git or a .gitattributes file would do to the files on the way: they are written as they are stored.
//
// Nothing that it says holds a credential. All that comes from the server is bounded; see Request.
package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/git/report"
)

const (
	// objectCache bounds the memory for objects that are read more than once.
	objectCache = 16 << 20
	// largeObject is the size from which on a file goes to the disk in pieces.
	largeObject = 1 << 20
)

// Request says what to fetch.
type Request struct {
	// URL is the address: http, https, ssh, or the short form user@host:path. It must not hold a password.
	URL string
	// Revision is a branch, a tag, a ref in full or a commit. Empty means the default branch.
	Revision string
	// Path is the folder of the repository that is wanted. Empty means all of it.
	Path string
	// Known is a commit that need not be fetched again, or empty.
	Known string
	// Credentials are for this URL only.
	Credentials Credentials
	// Authorities are certificate authorities in PEM form that are trusted besides the system's.
	Authorities []byte
	// MaxBytes is the most that the server may send in one answer.
	MaxBytes int64
	// Limits bound the files that are written.
	Limits archive.Limits
}

// Credentials are a user name and a password or token for HTTP, or a private key and the known host keys for SSH.
type Credentials struct {
	Username, Password string
	// Identity is a private key in PEM form. Password unlocks it, when it is locked.
	Identity []byte
	// KnownHosts is in the format of OpenSSH.
	KnownHosts []byte
}

// Fetch brings the files of the wanted folder to the folder files, which must be empty, with room for the repository in
// the folder scratch. An error is a *Fault.
func Fetch(ctx context.Context, req Request, files *os.Root, scratch string) (report.Fetched, error) {
	result := make(chan fetchResult, 1)
	// An SSH connection that hangs in its handshake does not heed the context.
	go func() {
		fetched, err := fetch(ctx, req, files, scratch)
		result <- fetchResult{fetched, err}
	}()
	select {
	case r := <-result:
		return r.fetched, faultOf(ctx, req, r.err)
	case <-ctx.Done():
		return report.Fetched{}, faultOf(ctx, req, ctx.Err())
	}
}

type fetchResult struct {
	fetched report.Fetched
	err     error
}

func fetch(ctx context.Context, req Request, files *os.Root, scratch string) (_ report.Fetched, err error) {
	remote, err := connect(ctx, req, scratch)
	if err != nil {
		return report.Fetched{}, err
	}
	defer func() { _ = remote.session.Close() }()
	wanted, err := resolve(remote.refs, req.Revision)
	if err != nil {
		return report.Fetched{}, err
	}
	fetched := report.Fetched{Ref: wanted.ref, Commit: wanted.commit.String()}
	if fetched.Commit == req.Known {
		fetched.Unchanged = true
		return fetched, nil
	}
	storage := filesystem.NewStorageWithOptions(osfs.New(filepath.Join(scratch, "git"), osfs.WithBoundOS()),
		cache.NewObjectLRU(objectCache), filesystem.Options{ExclusiveAccess: true, LargeObjectThreshold: largeObject})
	if err := remote.download(ctx, wanted.object, storage); err != nil {
		return report.Fetched{}, err
	}
	commit, err := commitOf(storage, wanted.object)
	if err != nil {
		return report.Fetched{}, err
	}
	fetched.Commit = commit.Hash.String()
	return fetched, checkout(ctx, commit, req, files)
}

// commitOf follows tags, of which one may name another, to the commit.
func commitOf(storage *filesystem.Storage, hash plumbing.Hash) (*object.Commit, error) {
	const mostTags = 8
	for range mostTags {
		tag, err := object.GetTag(storage, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading tag %s: %w", hash, err)
		}
		hash = tag.Target
	}
	commit, err := object.GetCommit(storage, hash)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, fault(report.RevisionNotFound, "%s is not a commit; spec.source.git.revision must name one", hash)
	}
	if err != nil {
		return nil, fmt.Errorf("reading commit %s: %w", hash, err)
	}
	return commit, nil
}
