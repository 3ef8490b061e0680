// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"k8s.io/utils/clock"

	"github.com/naeel/sless/internal/serverclock"
	"github.com/naeel/sless/internal/servers"
)

const (
	// defaultRegion is what most implementations take, or take no notice of. A region that is set spares the client a
	// question about the location of the bucket, which some do not answer.
	defaultRegion = "us-east-1"

	// maxTries is how often one request is sent, with pauses of at most one second.
	maxTries = 3

	// defaultAnswerTimeout is Config.AnswerTimeout.
	defaultAnswerTimeout = time.Minute
)

// Config says where the store is and how to reach it.
type Config struct {
	// Endpoint is "host" or "host:port". A scheme in front is accepted when it agrees with Insecure.
	Endpoint string
	// Region is the region of the bucket, us-east-1 when empty.
	Region string
	// Bucket holds all objects.
	Bucket string
	// PathStyle puts the bucket into the path instead of the host name. Most stores other than that of AWS need it.
	PathStyle bool
	// Insecure means plain HTTP.
	Insecure bool
	// CAFile is a file with PEM certificates that are trusted besides those of the system.
	CAFile string
	// AccessKey and SecretKey are the credentials. Both are empty for a store that asks for none.
	AccessKey, SecretKey string
	// AnswerTimeout is how long the store may take to begin an answer, and to take or give the next bytes of an object. The
	// default is a minute.
	AnswerTimeout time.Duration
	// Clock is the clock of the caller, by which the store tells when objects were stored. The default is the machine's.
	Clock clock.PassiveClock
}

// S3 is a Store in one bucket.
type S3 struct {
	client *minio.Core
	bucket string
	region string
	// clock is the caller's, and own the store's.
	clock clock.PassiveClock
	own   *serverclock.Clock
}

var _ Store = (*S3)(nil)

// New gives the store. It checks the configuration and does not connect.
func New(cfg Config) (*S3, error) {
	endpoint, err := checkConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("object store: %w", err)
	}
	transport, err := servers.NewTransport(cfg.CAFile, cmp.Or(cfg.AnswerTimeout, defaultAnswerTimeout))
	if err != nil {
		return nil, fmt.Errorf("object store: %w", err)
	}
	lookup := minio.BucketLookupDNS
	if cfg.PathStyle {
		lookup = minio.BucketLookupPath
	}
	region := cmp.Or(cfg.Region, defaultRegion)
	s := &S3{bucket: cfg.Bucket, region: region, clock: cfg.Clock}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	s.own = serverclock.New(clock.RealClock{}, logr.Discard())
	s.client, err = minio.NewCore(endpoint, &minio.Options{
		Creds:        credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, ""),
		Secure:       !cfg.Insecure,
		Transport:    s.own.Wrap(&skewTeller{next: transport}),
		Region:       region,
		BucketLookup: lookup,
		MaxRetries:   maxTries,
	})
	if err != nil {
		return nil, fmt.Errorf("object store: %w", err)
	}
	return s, nil
}

func checkConfig(cfg Config) (endpoint string, err error) {
	scheme, host, found := strings.Cut(cfg.Endpoint, "://")
	if !found {
		scheme, host = "", cfg.Endpoint
	}
	switch {
	case host == "":
		return "", errors.New("no endpoint is set")
	case strings.Contains(host, "@"):
		return "", errors.New("the endpoint holds credentials")
	case cfg.Bucket == "":
		return "", errors.New("no bucket is set")
	case (cfg.AccessKey == "") != (cfg.SecretKey == ""):
		return "", errors.New("only one of access key and secret key is set")
	case scheme == "http" && !cfg.Insecure, scheme == "https" && cfg.Insecure:
		return "", fmt.Errorf("endpoint %s contradicts the setting for plain HTTP", cfg.Endpoint)
	case scheme != "" && scheme != "http" && scheme != "https":
		return "", fmt.Errorf("endpoint %s has an unknown scheme", cfg.Endpoint)
	}
	return strings.TrimSuffix(host, "/"), nil
}

// EnsureBucket makes the bucket when there is none. It may run in several programs at once.
func (s *S3) EnsureBucket(ctx context.Context) error {
	exists, err := s.client.BucketExists(ctx, s.bucket)
	if err != nil {
		return fmt.Errorf("looking for bucket %s: %w", s.bucket, err)
	}
	if exists {
		return nil
	}
	err = s.client.MakeBucket(ctx, s.bucket, minio.MakeBucketOptions{Region: s.region})
	switch minio.ToErrorResponse(err).Code {
	case minio.BucketAlreadyOwnedByYou, minio.BucketAlreadyExists:
		return nil
	}
	if err != nil {
		return fmt.Errorf("making bucket %s: %w", s.bucket, err)
	}
	return nil
}

// Put stores an object, see Store. It reads back the size, which finds a store that keeps the framing of the upload
// as content.
func (s *S3) Put(ctx context.Context, key string, r io.Reader, size int64, meta map[string]string) error {
	if size < 0 {
		return fmt.Errorf("storing %s: size %d is negative", key, size)
	}
	// One request, because parts that are left behind by a program that died would stay for ever, and no checksum in
	// trailers, because not every store decodes them. Over plain HTTP each chunk is signed, over TLS the connection
	// guards the content.
	opts := minio.PutObjectOptions{
		UserMetadata:     meta,
		ContentType:      "application/gzip",
		DisableMultipart: true,
		// There is no chunk to sign, and chunks for nothing confuse some stores.
		DisableContentSha256: size == 0,
	}
	source := newSource(r, size)
	if _, err := s.client.Client.PutObject(ctx, s.bucket, key, source.reader(), size, opts); err != nil {
		return fmt.Errorf("storing %s: %w", key, source.explain(err))
	}
	info, err := s.Stat(ctx, key)
	if err != nil {
		return err
	}
	if info.Size != size {
		return fmt.Errorf("storing %s: %d bytes were sent and %d were stored", key, size, info.Size)
	}
	return nil
}

// Get opens an object, see Store.
func (s *S3) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	content, info, _, err := s.client.GetObject(ctx, s.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, Info{}, fmt.Errorf("reading %s: %w", key, notFound(err))
	}
	return content, s.infoOf(info), nil
}

// Stat describes an object, see Store.
func (s *S3) Stat(ctx context.Context, key string) (Info, error) {
	info, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, fmt.Errorf("looking for %s: %w", key, notFound(err))
	}
	return s.infoOf(info), nil
}

// Delete removes an object, see Store.
func (s *S3) Delete(ctx context.Context, key string) error {
	err := s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{})
	if err = notFound(err); err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("deleting %s: %w", key, err)
	}
	return nil
}

func (s *S3) infoOf(info minio.ObjectInfo) Info {
	metadata := make(map[string]string, len(info.UserMetadata))
	for key, value := range info.UserMetadata {
		metadata[strings.ToLower(key)] = value
	}
	return Info{Size: info.Size, LastModified: s.callersTime(info.LastModified), Metadata: metadata}
}

// notFound gives ErrNotFound for an error that says so. A bucket that is missing is another matter.
func notFound(err error) error {
	response := minio.ToErrorResponse(err)
	if err != nil && response.StatusCode == http.StatusNotFound && response.Code != minio.NoSuchBucket {
		return ErrNotFound
	}
	return err
}
