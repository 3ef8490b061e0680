// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/naeel/sless/internal/objectstore"
)

// startPrivate serves by TLS with a certificate of its own authority, and returns the host and the file of the authority.
func startPrivate(t *testing.T, handler http.Handler) (host, caFile string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	caFile = filepath.Join(t.TempDir(), "ca.crt")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(server.URL, "https://"), caFile
}

func TestRegistryWithALoginAndAPrivateAuthority(t *testing.T) {
	t.Parallel()
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	host, caFile := startPrivate(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "sless" || password != secretKey {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	login := filepath.Join(t.TempDir(), "config.json")
	auth := base64.StdEncoding.EncodeToString([]byte("sless:" + secretKey))
	if err := os.WriteFile(login, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none.json")
	if err := os.WriteFile(none, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	path, digest := writeImage(t)
	push := []string{"push", "--tar", path, "--target", host + "/deps:1"}
	run(t, nil, append(push, "--registry-config", login)...).wantFailure(t, ReasonPushFailed, "certificate")
	run(t, nil, append(push, "--registry-config", none, "--registry-ca-file", caFile)...).wantFailure(t, ReasonPushFailed, "401")
	if got := run(t, nil, append(push, "--registry-config", login, "--registry-ca-file", caFile)...); got.termination != digest {
		t.Fatalf("got %+v, want digest %s", got, digest)
	}

	dest := t.TempDir()
	pull := []string{"pull", "--image", host + "/deps@" + digest, "--dest", dest, "--registry-ca-file", caFile}
	run(t, nil, append(pull, "--registry-config", none)...).wantFailure(t, ReasonPullFailed, "401")
	if got := run(t, nil, append(pull, "--registry-config", login)...); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	img, err := tarball.ImageFromPath(filepath.Join(dest, digest), nil)
	if err != nil {
		t.Fatal(err)
	}
	if hash, err := img.Digest(); err != nil || hash.String() != digest {
		t.Errorf("the file holds %s, %v, want %s", hash, err, digest)
	}
	run(t, nil, "pull", "--image", host+"/deps:1", "--dest", dest, "--registry-ca-file", caFile, "--registry-config", login).
		wantFailure(t, ReasonPullFailed, "has no digest")
	run(t, nil, "pull", "--dest", dest).wantFailure(t, ReasonPullFailed, "image")
}

func TestStoreWithAPrivateAuthority(t *testing.T) {
	t.Parallel()
	host, caFile := startPrivate(t, gofakes3.New(s3mem.New()).Server())
	store, err := objectstore.New(objectstore.Config{
		Endpoint: host, Region: "us-east-1", Bucket: "code", PathStyle: true, CAFile: caFile, AccessKey: "key", SecretKey: secretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	packed := packSample(t)
	put(t, store, "ns/a.tar.gz", packed.Data)
	env := map[string]string{
		"S3_ENDPOINT": host, "S3_REGION": "us-east-1", "S3_BUCKET": "code", "S3_PATH_STYLE": "true",
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": secretKey,
	}
	args := []string{"fetch", "--key", "ns/a.tar.gz", "--sha256", packed.Digest, "--dest", t.TempDir()}
	run(t, env, args...).wantFailure(t, ReasonStoreRefused, "certificate is not trusted", "objectStore.caFile")
	env["S3_CA_FILE"] = caFile
	if got := run(t, env, args...); got.code != 0 {
		t.Errorf("got %+v", got)
	}
}
