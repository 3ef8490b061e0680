// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/objectstore"
)

type fetchOptions struct {
	key, digest, dest string
	under             []string
	maxBytes          int64
}

// stored is an archive in the object store.
type stored struct{ key, digest string }

func (p *Program) fetchCommand() *cobra.Command {
	opts := fetchOptions{}
	command := &cobra.Command{
		Use:   "fetch --key KEY --sha256 DIGEST --dest FOLDER",
		Short: "Fetch a source archive from the object store, verify it and unpack it",
		Long: "Fetch a source archive from the object store, verify it and unpack it.\n\n" +
			"The store is given by the environment: S3_ENDPOINT, S3_REGION, S3_BUCKET, S3_PATH_STYLE, S3_INSECURE,\n" +
			"S3_CA_FILE, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.fetch(cmd.Context(), opts)
		},
	}
	flags := command.Flags()
	flags.StringVar(&opts.key, "key", "", "key of the archive in the bucket")
	flags.StringVar(&opts.digest, "sha256", "", "digest of the archive, with or without sha256: in front")
	flags.StringVar(&opts.dest, "dest", "", "folder to unpack to; made when it is missing")
	flags.StringArrayVar(&opts.under, "under", nil,
		"KEY=DIGEST of a further archive that is unpacked before this one, to the same folder; repeatable")
	flags.Int64Var(&opts.maxBytes, "max-bytes", archive.DefaultLimits.ArchiveBytes(), "largest archive that is fetched")
	for _, name := range []string{"key", "sha256", "dest"} {
		// The flag exists, so there is no error.
		_ = command.MarkFlagRequired(name)
	}
	return command
}

// fetch downloads to a file without a name, verifies all of it, and only then unpacks. It may run again over the result
// of an earlier run: Kubernetes restarts init containers.
func (p *Program) fetch(ctx context.Context, opts fetchOptions) (err error) {
	store, err := p.newStore()
	if err != nil {
		return &stepError{ReasonSourceFetchFailed, err}
	}
	archives, err := opts.archives()
	if err != nil {
		return &stepError{ReasonSourceFetchFailed, err}
	}
	if err := os.MkdirAll(opts.dest, 0o755); err != nil {
		return &stepError{ReasonSourceFetchFailed, err}
	}
	file, err := openScratch(opts.dest)
	if err != nil {
		return &stepError{ReasonSourceFetchFailed, err}
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	for _, source := range archives {
		err = p.retry(ctx, objectstore.IsUnavailable, func(ctx context.Context) error {
			return download(ctx, store, source, opts.maxBytes, file)
		})
		if err != nil {
			return &stepError{fetchReason(err), objectstore.Explain(err)}
		}
		if err := unpack(file, opts.dest); err != nil {
			return &stepError{fetchReason(err), err}
		}
		p.printf("Unpacked %s to %s", source.key, opts.dest)
	}
	return nil
}

// archives returns what to unpack, in this order: where two archives have the same file, the later one wins.
func (o *fetchOptions) archives() ([]stored, error) {
	under, err := pairs("under", o.under)
	if err != nil {
		return nil, err
	}
	archives := make([]stored, 0, len(under)+1)
	for _, key := range slices.Sorted(maps.Keys(under)) {
		archives = append(archives, stored{key, under[key]})
	}
	archives = append(archives, stored{o.key, o.digest})
	for _, a := range archives {
		if _, err := archive.ParseDigest(a.digest); err != nil {
			return nil, err
		}
	}
	return archives, nil
}

func (p *Program) newStore() (*objectstore.S3, error) {
	cfg := objectstore.Config{
		Endpoint:  p.Getenv("S3_ENDPOINT"),
		Region:    p.Getenv("S3_REGION"),
		Bucket:    p.Getenv("S3_BUCKET"),
		CAFile:    p.Getenv("S3_CA_FILE"),
		AccessKey: p.Getenv("AWS_ACCESS_KEY_ID"),
		SecretKey: p.Getenv("AWS_SECRET_ACCESS_KEY"),
	}
	for name, target := range map[string]*bool{"S3_PATH_STYLE": &cfg.PathStyle, "S3_INSECURE": &cfg.Insecure} {
		value := p.Getenv(name)
		if value == "" {
			continue
		}
		parsed, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("%s is %q, expected true or false", name, value)
		}
		*target = parsed
	}
	return objectstore.New(cfg)
}

// openScratch gives a file that vanishes with the program, however that ends. It lies in the target folder, which is
// the one place that is sure to be writable and large enough.
func openScratch(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, ".fetch-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// download puts the verified object into file, in place of what an earlier try left there.
func download(ctx context.Context, store objectstore.Store, source stored, maxBytes int64, file *os.File) (err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	content, _, err := objectstore.OpenVerified(ctx, store, source.key, source.digest, maxBytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if _, err := io.Copy(file, content); err != nil {
		return fmt.Errorf("fetching %s: %w", source.key, err)
	}
	return nil
}

func unpack(file *os.File, dest string) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := os.Chmod(dest, 0o755); err != nil && !errors.Is(err, os.ErrPermission) {
		// A mounted folder belongs to someone else, who decides who can read it.
		return err
	}
	return archive.Extract(file, dest, archive.DefaultLimits)
}

func fetchReason(err error) string {
	var (
		digest   *archive.DigestError
		source   *archive.Error
		tooLarge *objectstore.TooLargeError
	)
	switch {
	case errors.As(err, &digest), errors.As(err, &source), errors.As(err, &tooLarge):
		return ReasonSourceCorrupt
	case objectstore.IsUnavailable(err):
		return ReasonStoreUnavailable
	case objectstore.IsRefused(err):
		return ReasonStoreRefused
	}
	return ReasonSourceFetchFailed
}
