// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/internal/archive"
)

func packSample(t *testing.T) *archive.Archive {
	t.Helper()
	packed, err := archive.FromFiles(map[string]string{
		"Dockerfile":       "FROM scratch\n",
		"requirements.txt": "requests\n",
		"src/app.py":       "print(1)\n",
	}, archive.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func listTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		got[rel] = info.Mode().String()
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return got
}

func TestFetchPutsOneArchiveOverAnother(t *testing.T) {
	t.Parallel()
	store, _, env := startStore(t)
	pack := func(files map[string]string) *archive.Archive {
		packed, err := archive.FromFiles(files, archive.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return packed
	}
	code := pack(map[string]string{"app/handler.py": "1", "app/Dockerfile": "FROM evil", "shared": "code"})
	build := pack(map[string]string{"Dockerfile": "FROM scratch", "shared": "build"})
	put(t, store, "ns/code.tar.gz", code.Data)
	put(t, store, "ns/build.tar.gz", build.Data)
	dest := t.TempDir()
	args := []string{"fetch", "--key", "ns/build.tar.gz", "--sha256", build.Digest, "--dest", dest, "--under"}
	if got := run(t, env, append(args, "ns/code.tar.gz="+code.Digest)...); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	got := map[string]string{}
	for _, name := range []string{"app/handler.py", "app/Dockerfile", "Dockerfile", "shared"} {
		data, err := os.ReadFile(filepath.Join(dest, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(data)
	}
	want := map[string]string{
		"app/handler.py": "1", "app/Dockerfile": "FROM evil", "Dockerfile": "FROM scratch", "shared": "build",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	run(t, env, append(args, "ns/code.tar.gz="+build.Digest)...).wantFailure(t, ReasonSourceCorrupt, "code.tar.gz")
	run(t, env, append(args, "ns/code.tar.gz")...).wantFailure(t, ReasonSourceFetchFailed, "--under")
}

func TestFetch(t *testing.T) {
	t.Parallel()
	store, _, env := startStore(t)
	packed := packSample(t)
	put(t, store, "ns/a.tar.gz", packed.Data)
	dest := filepath.Join(t.TempDir(), "work", "space")
	for _, digest := range []string{packed.Digest, strings.TrimPrefix(packed.Digest, "sha256:")} {
		// The second run finds the tree of the first.
		got := run(t, env, "fetch", "--key", "ns/a.tar.gz", "--sha256", digest, "--dest", dest)
		if got.code != 0 || got.termination != "" {
			t.Fatalf("got %+v", got)
		}
		want := map[string]string{
			"Dockerfile": "-rw-r--r--", "requirements.txt": "-rw-r--r--", "src": "drwxr-xr-x", "src/app.py": "-rw-r--r--",
		}
		if diff := cmp.Diff(want, listTree(t, dest)); diff != "" {
			t.Error(diff)
		}
	}
	info, err := os.Stat(dest)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("target folder has mode %v, %v", info.Mode(), err)
	}
}

// An archive of 250 MiB of files that cannot be compressed is larger than its files.
func TestFetchTakesWhatIsStored(t *testing.T) {
	t.Parallel()
	got := (&Program{}).fetchCommand().Flags().Lookup("max-bytes").DefValue
	if want := strconv.FormatInt(archive.DefaultLimits.ArchiveBytes(), 10); got != want {
		t.Errorf("at most %s bytes are fetched, and archives have up to %s", got, want)
	}
}

func TestFetchFails(t *testing.T) {
	t.Parallel()
	store, _, env := startStore(t)
	packed := packSample(t)
	put(t, store, "good", packed.Data)
	linked := packLink(t)
	put(t, store, "link", linked)
	put(t, store, "text", []byte("no archive"))

	tests := map[string]struct {
		key, digest string
		dest        string
		more        []string
		env         map[string]string
		wantReason  string
		wantWords   []string
	}{
		"missing": {
			key: "none", digest: packed.Digest, wantReason: ReasonSourceFetchFailed, wantWords: []string{"none", "not found"},
		},
		"other bytes": {
			key: "text", digest: packed.Digest, wantReason: ReasonSourceCorrupt,
			wantWords: []string{"expected " + packed.Digest},
		},
		"no archive": {
			key: "text", digest: digestOf([]byte("no archive")), wantReason: ReasonSourceCorrupt,
			wantWords: []string{"no readable tar.gz"},
		},
		"link": {
			key: "link", digest: digestOf(linked), wantReason: ReasonSourceCorrupt,
			wantWords: []string{`"a/b" is a symbolic link`},
		},
		"too large": {
			key: "good", digest: packed.Digest, more: []string{"--max-bytes", "10"}, wantReason: ReasonSourceCorrupt,
			wantWords: []string{"more than the limit of 10"},
		},
		"bad digest": {
			key: "good", digest: "latest", wantReason: ReasonSourceFetchFailed, wantWords: []string{"is not a sha256 digest"},
		},
		"no target": {key: "good", digest: packed.Digest, dest: "/proc/none", wantReason: ReasonSourceFetchFailed},
		"no bucket": {
			key: "good", digest: packed.Digest, env: map[string]string{"S3_BUCKET": "other"},
			wantReason: ReasonStoreRefused, wantWords: []string{"has no bucket"},
		},
		"no endpoint": {
			key: "good", digest: packed.Digest, env: map[string]string{"S3_ENDPOINT": ""}, wantReason: ReasonSourceFetchFailed,
			wantWords: []string{"no endpoint"},
		},
		"bad setting": {
			key: "good", digest: packed.Digest, env: map[string]string{"S3_INSECURE": "maybe"},
			wantReason: ReasonSourceFetchFailed, wantWords: []string{"S3_INSECURE"},
		},
		"no such port": {
			key: "good", digest: packed.Digest, env: map[string]string{"S3_ENDPOINT": "127.0.0.1:1"},
			wantReason: ReasonStoreUnavailable,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dest := tc.dest
			if dest == "" {
				dest = filepath.Join(t.TempDir(), "dest")
			}
			changed := map[string]string{}
			for _, from := range []map[string]string{env, tc.env} {
				maps.Copy(changed, from)
			}
			args := append([]string{"fetch", "--key", tc.key, "--sha256", tc.digest, "--dest", dest}, tc.more...)
			run(t, changed, args...).wantFailure(t, tc.wantReason, tc.wantWords...)
			if left := listTree(t, dest); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestFetchTriesAgain(t *testing.T) {
	t.Parallel()
	store, front, env := startStore(t)
	packed := packSample(t)
	put(t, store, "good", packed.Data)
	args := []string{"fetch", "--key", "good", "--sha256", packed.Digest, "--dest", t.TempDir()}

	front.shut(http.StatusServiceUnavailable, 4) // more than one request is tried by itself
	if got := run(t, env, args...); got.code != 0 {
		t.Errorf("got %+v", got)
	}
	front.shut(http.StatusServiceUnavailable, -1)
	run(t, env, args...).wantFailure(t, ReasonStoreUnavailable, "good")
	if most := quick.Steps * 3; front.seen() > most {
		t.Errorf("%d requests were made, want at most %d", front.seen(), most)
	}
	front.shut(http.StatusForbidden, -1)
	run(t, env, args...).wantFailure(t, ReasonStoreRefused, "refuses the credentials")
	if front.seen() != 1 {
		t.Errorf("%d requests were made for a refusal, want 1", front.seen())
	}
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func packLink(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	packed := gzip.NewWriter(&buf)
	w := tar.NewWriter(packed)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "a/b", Linkname: "/"})
	if err := errors.Join(err, w.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
