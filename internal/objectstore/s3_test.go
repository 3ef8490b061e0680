// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"github.com/naeel/sless/internal/archive"
)

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

var ignoreTime = cmpopts.IgnoreFields(Info{}, "LastModified")

// onlyReader hides that a reader can seek.
type onlyReader struct{ io.Reader }

func TestStore(t *testing.T) {
	t.Parallel()
	servers := map[string]func(*testing.T) string{"gofakes3": startFake, "versitygw": startVersitygw}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newTestStore(t, testConfig(start(t)))
			testEnsureBucket(t, store)
			t.Run("round trip", func(t *testing.T) { testRoundTrip(t, store) })
			t.Run("missing", func(t *testing.T) { testMissing(t, store) })
			t.Run("bad source", func(t *testing.T) { testBadSource(t, store) })
			t.Run("verified", func(t *testing.T) { testOpenVerified(t, store) })
			t.Run("parallel", func(t *testing.T) { testParallel(t, store) })
		})
	}
}

func testEnsureBucket(t *testing.T, store *S3) {
	t.Helper()
	if _, err := store.Stat(t.Context(), "ns/a"); err == nil || IsUnavailable(err) {
		t.Errorf("without a bucket: got error %v", err)
	}
	var group errgroup.Group
	for range 4 {
		group.Go(func() error { return store.EnsureBucket(t.Context()) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := store.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func testRoundTrip(t *testing.T, store *S3) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 20<<16) // over the size where the client would send parts
	tests := map[string]struct {
		content []byte
		reader  func([]byte) io.Reader
		meta    map[string]string
	}{
		"seekable": {content: []byte("hello"), meta: map[string]string{"function": "ns/hello", "diff-id": "sha256:1"}},
		"stream": {
			content: []byte("hello"), reader: func(b []byte) io.Reader { return onlyReader{bytes.NewReader(b)} },
		},
		"slow": {
			content: []byte("hello"), reader: func(b []byte) io.Reader { return iotest.OneByteReader(bytes.NewReader(b)) },
		},
		"empty":        {content: []byte{}},
		"large":        {content: large},
		"large stream": {content: large, reader: func(b []byte) io.Reader { return onlyReader{bytes.NewReader(b)} }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, key := t.Context(), CodeKey("ns-"+strings.ReplaceAll(name, " ", "-"), digestOf(tc.content))
			var source io.Reader = bytes.NewReader(tc.content)
			if tc.reader != nil {
				source = tc.reader(tc.content)
			}
			for _, content := range []io.Reader{strings.NewReader("earlier"), source} {
				size := int64(len("earlier"))
				if content == source {
					size = int64(len(tc.content))
				}
				if err := store.Put(ctx, key, content, size, tc.meta); err != nil {
					t.Fatal(err)
				}
			}
			want := Info{Size: int64(len(tc.content)), Metadata: map[string]string{}}
			if tc.meta != nil {
				want.Metadata = tc.meta
			}
			info, err := store.Stat(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, info, ignoreTime); diff != "" {
				t.Error("Stat", diff)
			}
			content, info, err := store.Get(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(content)
			if err := errors.Join(err, content.Close()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, info, ignoreTime); diff != "" {
				t.Error("Get", diff)
			}
			if !bytes.Equal(got, tc.content) {
				t.Errorf("got %d other bytes, want %d", len(got), len(tc.content))
			}
			for range 2 { // the second time there is nothing
				if err := store.Delete(ctx, key); err != nil {
					t.Error(err)
				}
			}
			if _, err := store.Stat(ctx, key); !errors.Is(err, ErrNotFound) {
				t.Errorf("after Delete: got error %v", err)
			}
		})
	}
}

func testMissing(t *testing.T, store *S3) {
	_, _, err := store.Get(t.Context(), "ns/missing.tar.gz")
	if !errors.Is(err, ErrNotFound) || IsUnavailable(err) || !strings.Contains(err.Error(), "ns/missing.tar.gz") {
		t.Errorf("Get: got error %v", err)
	}
	if _, err := store.Stat(t.Context(), "ns/missing.tar.gz"); !errors.Is(err, ErrNotFound) || IsUnavailable(err) {
		t.Errorf("Stat: got error %v", err)
	}
	other := testConfig(store.client.EndpointURL().String())
	other.Bucket = "other-bucket"
	_, _, err = newTestStore(t, other).Get(t.Context(), "a")
	if err == nil || errors.Is(err, ErrNotFound) || IsUnavailable(err) {
		t.Errorf("another bucket: got error %v", err)
	}
}

func testBadSource(t *testing.T, store *S3) {
	broken := errors.New("broken")
	tests := map[string]struct {
		source  io.Reader
		size    int64
		wantErr error
	}{
		"broken":   {source: io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(broken)), size: 5, wantErr: broken},
		"short":    {source: onlyReader{strings.NewReader("ab")}, size: 5, wantErr: errShortSource},
		"negative": {source: strings.NewReader("ab"), size: -1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			key := "ns/bad-" + name
			err := store.Put(t.Context(), key, tc.source, tc.size, nil)
			if err == nil || IsUnavailable(err) || tc.wantErr != nil && !errors.Is(err, tc.wantErr) {
				t.Errorf("got error %v, want %v", err, tc.wantErr)
			}
			if _, err := store.Stat(t.Context(), key); !errors.Is(err, ErrNotFound) {
				t.Errorf("something was stored: %v", err)
			}
		})
	}
}

func testOpenVerified(t *testing.T, store *S3) {
	content := []byte("the source of a function")
	if err := store.Put(t.Context(), "ns/verified", bytes.NewReader(content), int64(len(content)), nil); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		key, digest    string
		limit          int64
		wantOpenError  func(error) bool
		wantOtherBytes bool
	}{
		"right": {key: "ns/verified", digest: digestOf(content), limit: int64(len(content))},
		"other": {key: "ns/verified", digest: digestOf([]byte("x")), limit: 100, wantOtherBytes: true},
		"large": {
			key: "ns/verified", digest: digestOf(content), limit: int64(len(content)) - 1,
			wantOpenError: func(err error) bool {
				var tooLarge *TooLargeError
				return errors.As(err, &tooLarge)
			},
		},
		"missing": {
			key: "ns/none", digest: digestOf(content), limit: 100,
			wantOpenError: func(err error) bool { return errors.Is(err, ErrNotFound) },
		},
		"no digest": {
			key: "ns/verified", digest: "latest", limit: 100, wantOpenError: func(err error) bool { return err != nil },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, info, err := OpenVerified(t.Context(), store, tc.key, tc.digest, tc.limit)
			if tc.wantOpenError != nil {
				if !tc.wantOpenError(err) || IsUnavailable(err) {
					t.Errorf("got error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			var digestErr *archive.DigestError
			if errors.As(err, &digestErr) != tc.wantOtherBytes || IsUnavailable(err) {
				t.Errorf("got error %v", err)
			}
			if tc.wantOtherBytes == bytes.Equal(got, content) || info.Size != int64(len(content)) {
				t.Errorf("got %q of %d bytes", got, info.Size)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func testParallel(t *testing.T, store *S3) {
	var group errgroup.Group
	for i := range 16 {
		group.Go(func() error {
			content := bytes.Repeat([]byte{byte(i)}, 100_000+i)
			key := CodeKey(fmt.Sprintf("ns%d", i%4), digestOf(content))
			if err := store.Put(t.Context(), key, bytes.NewReader(content), int64(len(content)), nil); err != nil {
				return err
			}
			r, _, err := OpenVerified(t.Context(), store, key, digestOf(content), 1<<20)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, r)
			return errors.Join(err, r.Close())
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func TestPutFindsStoredFraming(t *testing.T) {
	t.Parallel()
	url := startHandler(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Length", "178")
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		}
	})
	err := newTestStore(t, testConfig(url)).Put(t.Context(), "a", strings.NewReader("hello"), 5, nil)
	if err == nil || IsUnavailable(err) || !strings.Contains(err.Error(), "5 bytes were sent and 178 were stored") {
		t.Errorf("got error %v", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	servers := map[string]func(*testing.T) (url, caFile string){"gofakes3": startFakeTLS, "versitygw": startVersitygwTLS}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, caFile := start(t)
			cfg := testConfig(url)
			if err := newTestStore(t, cfg).EnsureBucket(t.Context()); !IsRefused(err) || IsUnavailable(err) {
				t.Errorf("unknown certificate: got error %v", err)
			}
			cfg.CAFile = caFile
			store := newTestStore(t, cfg)
			if err := store.EnsureBucket(t.Context()); err != nil {
				t.Fatal(err)
			}
			testRoundTrip(t, store)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	noCert := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(noCert, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		change    func(*Config)
		wantError string
	}{
		"nothing":    {change: func(*Config) {}},
		"bare host":  {change: func(c *Config) { c.Endpoint = "s3.sless-demo.svc.cluster.local:7070" }},
		"endpoint":   {change: func(c *Config) { c.Endpoint = "" }, wantError: "no endpoint is set"},
		"bucket":     {change: func(c *Config) { c.Bucket = "" }, wantError: "no bucket is set"},
		"half a key": {change: func(c *Config) { c.AccessKey = "" }, wantError: "only one of access key and secret key"},
		"anonymous":  {change: func(c *Config) { c.AccessKey, c.SecretKey = "", "" }},
		"plain":      {change: func(c *Config) { c.Insecure = false }, wantError: "contradicts"},
		"not plain":  {change: func(c *Config) { c.Endpoint = "https://a" }, wantError: "contradicts"},
		"scheme":     {change: func(c *Config) { c.Endpoint = "s3://a" }, wantError: "unknown scheme"},
		"path":       {change: func(c *Config) { c.Endpoint = "http://a/b" }, wantError: "Endpoint"},
		"credentials": {
			change: func(c *Config) { c.Endpoint = "https://a:" + testSecretKey + "@b" }, wantError: "holds credentials",
		},
		"CA missing": {change: func(c *Config) { c.CAFile = "/nowhere" }, wantError: "reading CA file"},
		"CA no PEM":  {change: func(c *Config) { c.CAFile = noCert }, wantError: "holds no certificate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig("http://localhost:1/")
			tc.change(&cfg)
			_, err := New(cfg)
			switch {
			case tc.wantError == "" && err != nil:
				t.Error(err)
			case tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)):
				t.Errorf("got error %v, want %s", err, tc.wantError)
			case err != nil && strings.Contains(err.Error(), testSecretKey):
				t.Errorf("error %v shows the secret", err)
			}
		})
	}
}

func TestCodeKey(t *testing.T) {
	t.Parallel()
	const digits = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	for _, digest := range []string{digits, "sha256:" + digits} {
		if got, want := CodeKey("team-a", digest), "team-a/"+digits+".tar.gz"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
