// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/git"
	"github.com/naeel/sless/internal/git/credential"
	"github.com/naeel/sless/internal/git/report"
	"github.com/naeel/sless/internal/objectstore"
)

// maxSecretFile is the largest file of a Secret; Kubernetes allows no more.
const maxSecretFile = 1 << 20

type cloneOptions struct {
	url, revision, path, known string
	namespace, scratch         string
	credentials                string
	authorities                []string
	maxBytes                   int64
	timeout                    time.Duration
}

func (p *Program) cloneCommand() *cobra.Command {
	opts := cloneOptions{}
	command := &cobra.Command{
		Use:   "clone --url URL --namespace NAMESPACE --scratch FOLDER",
		Short: "Fetch a commit of a git repository and put its files into the object store",
		Long: "Fetch a commit of a git repository and put its files into the object store, as the archive that builds take.\n" +
			"The result goes to the termination log as JSON: ref, commit, digest, size; or unchanged, when the revision\n" +
			"is still at the known commit.\n\n" +
			"The store is given by the environment, as for fetch.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.clone(cmd.Context(), opts)
		},
	}
	flags := command.Flags()
	flags.StringVar(&opts.url, "url", "", "address of the repository")
	flags.StringVar(&opts.revision, "revision", "", "branch, tag or commit (default: the default branch)")
	flags.StringVar(&opts.path, "path", "", "folder of the repository (default: all of it)")
	flags.StringVar(&opts.known, "known", "", "commit that need not be fetched again")
	flags.StringVar(&opts.namespace, "namespace", "", "user namespace, under which the archive is stored")
	flags.StringVar(&opts.scratch, "scratch", "", "folder for the work, with room for repository, files and archive")
	flags.StringVar(&opts.credentials, "credentials", "",
		"folder with username, password or token, or identity and known_hosts, and ca.crt; a file may be missing")
	flags.StringArrayVar(&opts.authorities, "ca-file", nil,
		"file with certificate authorities that are trusted besides the system's; repeatable")
	flags.Int64Var(&opts.maxBytes, "max-bytes", 100<<20, "most that is received of the repository")
	flags.DurationVar(&opts.timeout, "timeout", 2*time.Minute, "longest that it may take")
	for _, name := range []string{"url", "namespace", "scratch"} {
		// The flag exists, so there is no error.
		_ = command.MarkFlagRequired(name)
	}
	return command
}

func (p *Program) clone(ctx context.Context, opts cloneOptions) error {
	ctx, cancel := context.WithTimeout(ctx, opts.timeout)
	defer cancel()
	req, err := cloneRequest(opts)
	if err != nil {
		return &stepError{report.SecretInvalid, err}
	}
	store, err := p.newStore()
	if err != nil {
		return &stepError{report.Failed, err}
	}
	dir, err := os.MkdirTemp(opts.scratch, "clone-")
	if err != nil {
		return &stepError{report.Failed, err}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fetched, root, err := p.fetchRepository(ctx, req, dir)
	if err != nil {
		return &stepError{cloneReason(ctx, err), err}
	}
	defer func() { _ = root.Close() }()
	if !fetched.Unchanged {
		if err := p.storeFiles(ctx, store, opts.namespace, root, dir, &fetched); err != nil {
			return &stepError{cloneReason(ctx, err), err}
		}
	}
	text, err := fetched.Encode()
	if err != nil {
		return &stepError{report.Failed, err}
	}
	p.printf("Fetched %s", text)
	p.terminate(text)
	return nil
}

func cloneRequest(opts cloneOptions) (git.Request, error) {
	req := git.Request{
		URL: opts.url, Revision: opts.revision, Path: opts.path, Known: opts.known,
		MaxBytes: opts.maxBytes, Limits: archive.DefaultLimits,
	}
	var problem error
	read := func(path string) []byte {
		data, err := readSecretFile(path)
		problem = errors.Join(problem, err)
		return data
	}
	trust := func(authorities []byte) {
		if len(authorities) > 0 {
			req.Authorities = append(append(req.Authorities, authorities...), '\n')
		}
	}
	for _, file := range opts.authorities {
		trust(read(file))
	}
	if opts.credentials == "" {
		return req, problem
	}
	own := func(name string) []byte { return read(filepath.Join(opts.credentials, name)) }
	req.Credentials = git.Credentials{
		Username: string(own(credential.Username)), Password: string(own(credential.Password)),
		Identity: own(credential.Identity), KnownHosts: own(credential.KnownHosts),
	}
	if token := own(credential.Token); len(token) > 0 {
		req.Credentials.Password = string(token)
	}
	trust(own(credential.Authority))
	return req, problem
}

// readSecretFile reads a file that may be missing.
func readSecretFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxSecretFile))
}

// fetchRepository fetches into a new folder for each try.
func (p *Program) fetchRepository(ctx context.Context, req git.Request, dir string) (report.Fetched, *os.Root, error) {
	var (
		fetched report.Fetched
		root    *os.Root
	)
	err := p.retry(ctx, repositoryMayPass, func(ctx context.Context) error {
		try, err := os.MkdirTemp(dir, "try-")
		if err != nil {
			return err
		}
		files := filepath.Join(try, "files")
		if err := os.Mkdir(files, 0o755); err != nil {
			return err
		}
		if root, err = os.OpenRoot(files); err != nil {
			return err
		}
		if fetched, err = git.Fetch(ctx, req, root, try); err != nil {
			return errors.Join(err, root.Close(), os.RemoveAll(try))
		}
		return os.RemoveAll(filepath.Join(try, "git"))
	})
	return fetched, root, err
}

func repositoryMayPass(err error) bool {
	fault, ok := errors.AsType[*git.Fault](err)
	return ok && fault.MayPass()
}

// storeFiles packs the files and puts the archive into the store, also when there is one: it may be damaged, or so old that
// it is about to be cleaned up.
func (p *Program) storeFiles(
	ctx context.Context, store objectstore.Store, namespace string, root *os.Root, dir string, fetched *report.Fetched,
) (err error) {
	file, err := openScratch(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	summary, err := archive.FromDir(root, file, archive.Options{Prefix: archive.CodePrefix, Limits: archive.DefaultLimits})
	if err != nil {
		return err
	}
	key := objectstore.CodeKey(namespace, summary.Digest)
	err = p.retry(ctx, objectstore.IsUnavailable, func(ctx context.Context) error {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return store.Put(ctx, key, file, summary.Size, nil)
	})
	if err != nil {
		return fmt.Errorf("storing the code: %w", objectstore.Explain(err))
	}
	fetched.Digest, fetched.Size = summary.Digest, summary.Size
	return nil
}

func cloneReason(ctx context.Context, err error) string {
	fault, isFault := errors.AsType[*git.Fault](err)
	_, refused := errors.AsType[*archive.Error](err)
	switch {
	case isFault:
		return fault.Reason
	case refused:
		return report.Invalid
	case ctx.Err() != nil:
		return report.TimedOut
	case objectstore.IsUnavailable(err):
		return ReasonStoreUnavailable
	case objectstore.IsRefused(err):
		return ReasonStoreRefused
	}
	return report.Failed
}
