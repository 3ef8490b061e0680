// SPDX-License-Identifier: Apache-2.0

package api

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/naeel/sless/internal/gateway"
	"github.com/naeel/sless/internal/gateway/auth"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
)

// testTimeout bounds everything that a test waits for. No test waits for it to pass.
const testTimeout = 60 * time.Second

// testAPI is an API port that serves on a port of its own.
type testAPI struct {
	addr, url string
	uploadDir string
	store     *testStore
	stop      func() error
}

// startAPI serves an API that believes every token. Its Functions are those of the test cluster, if there is one.
func startAPI(t testing.TB, tweaks ...func(*Config)) *testAPI {
	t.Helper()
	a := &testAPI{uploadDir: t.TempDir(), store: startStore(t)}
	cfg := Config{
		Verifier: auth.NewUnsigned(), Store: a.store, UploadDir: a.uploadDir, DrainTimeout: testTimeout,
		Log: testr.NewWithInterface(quietAfter{t}, testr.Options{Verbosity: 1}),
	}
	if cluster.gateway != nil {
		cfg.Client = cluster.gateway
	}
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a.addr, a.url = listener.Addr().String(), "http://"+listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- New(cfg).serveOn(ctx, listener) }()
	a.stop = func() error {
		cancel()
		err := <-stopped
		stopped <- err // for the clean-up
		return err
	}
	t.Cleanup(func() {
		if err := a.stop(); err != nil {
			t.Errorf("the API ended with %v", err)
		}
		if left := names(t, a.uploadDir); len(left) > 0 {
			t.Errorf("left over in the folder for uploads: %q", left)
		}
	})
	return a
}

// quietAfter keeps log lines of goroutines that outlive a test from failing it.
type quietAfter struct{ t testing.TB }

func (q quietAfter) Helper() {}

func (q quietAfter) Log(args ...any) {
	if q.t.Context().Err() == nil {
		q.t.Log(args...)
	}
}

// testStore is a real store in this process that counts and can be switched off.
type testStore struct {
	*objectstore.S3
	puts atomic.Int32
	// down is the status of all answers, or 0.
	down atomic.Int32
}

func (s *testStore) Put(ctx context.Context, key string, r io.Reader, size int64, meta map[string]string) error {
	s.puts.Add(1)
	return s.S3.Put(ctx, key, r, size, meta)
}

func startStore(t testing.TB) *testStore {
	t.Helper()
	s := &testStore{}
	fake := gofakes3.New(s3mem.New()).Server()
	s.S3 = storeAt(t, func(w http.ResponseWriter, r *http.Request) {
		if status := s.down.Load(); status != 0 {
			http.Error(w, "down", int(status))
			return
		}
		fake.ServeHTTP(w, r)
	})
	if err := s.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func storeAt(t testing.TB, handler http.HandlerFunc) *objectstore.S3 {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	store, err := objectstore.New(objectstore.Config{
		Endpoint: server.URL, Bucket: "sless", PathStyle: true, Insecure: true, AccessKey: "key", SecretKey: "secret",
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

// tokenOf is an unsigned token of a subject.
func tokenOf(subject string) string {
	claims, err := json.Marshal(map[string]string{"sub": subject})
	if err != nil {
		panic(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(claims) + "."
}

// uploadPath is where a subject uploads the code of one of its functions.
func uploadPath(subject, name string) string {
	return "/v1/namespaces/" + naming.TenantNamespace(subject) + "/functions/" + name + "/upload"
}

// zipOf makes a zip of names and contents, in the order that is given.
func zipOf(t testing.TB, pairs ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for pair := range slices.Chunk(pairs, 2) {
		f, err := w.Create(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, pair[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// request is what a test sends.
type request struct {
	method, path string
	token        string
	header       map[string]string
	body         io.Reader
}

// response is what it got.
type response struct {
	status int
	header http.Header
	body   string
}

// send sends a request with the token of subject, when it is not empty.
func (a *testAPI) send(t testing.TB, in request) response {
	t.Helper()
	out, err := a.trySend(t, in)
	if err != nil {
		t.Errorf("%s %s: %v", in.method, in.path, err)
	}
	return out
}

func (a *testAPI) trySend(t testing.TB, in request) (response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, in.method, a.url+in.path, in.body)
	if err != nil {
		return response{}, err
	}
	if in.token != "" {
		r.Header.Set("Authorization", "Bearer "+in.token)
	}
	for name, value := range in.header {
		r.Header.Set(name, value)
	}
	if _, ok := in.body.(*slowBody); ok {
		r.Header.Set("Expect", "100-continue")
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: testTimeout},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(r)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return response{status: res.StatusCode, header: res.Header, body: string(body)}, err
}

// upload sends a zip for a function of subject.
func (a *testAPI) upload(t testing.TB, subject, name string, body io.Reader) response {
	t.Helper()
	return a.send(t, request{method: http.MethodPost, path: uploadPath(subject, name), token: tokenOf(subject), body: body})
}

// checkError checks that an answer is one of the API's, and says what it should.
func checkError(t testing.TB, got response, wantStatus int, wantText string) {
	t.Helper()
	var body map[string]string
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || len(body) != 1 {
		t.Errorf("%d, body %q is not {\"error\": ...}: %v", got.status, got.body, err)
	}
	if got.status != wantStatus || !strings.Contains(body["error"], wantText) || body["error"] == "" {
		t.Errorf("got %d %q, want %d with %q", got.status, body["error"], wantStatus, wantText)
	}
	checkHeaders(t, got)
	if got.status == http.StatusTooManyRequests && got.header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	if challenge := got.header.Get("WWW-Authenticate"); (got.status == http.StatusUnauthorized) != (challenge != "") {
		t.Errorf("%d with WWW-Authenticate %q", got.status, challenge)
	}
}

func checkHeaders(t testing.TB, got response) {
	t.Helper()
	if id := got.header.Values(gateway.HeaderRequestID); len(id) != 1 || id[0] == "" {
		t.Errorf("request id %q", id)
	}
	if got.header.Get("Content-Type") != "application/json" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("header %v", got.header)
	}
}

// wantUploaded reads the answer to an upload.
func wantUploaded(t testing.TB, got response) uploadAnswer {
	t.Helper()
	var answer uploadAnswer
	decoder := json.NewDecoder(strings.NewReader(got.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answer); err != nil || got.status != http.StatusOK {
		t.Errorf("got %d %s, %v", got.status, got.body, err)
	}
	checkHeaders(t, got)
	return answer
}

// slowBody is a body of which a test decides when it goes on. It is not sent before the server asks for it.
type slowBody struct {
	*io.PipeReader
	w *io.PipeWriter
}

func newSlowBody() *slowBody {
	r, w := io.Pipe()
	return &slowBody{PipeReader: r, w: w}
}

// begin sends the first byte of content. When it returns, the upload has its place and the Function was looked at.
func (b *slowBody) begin(t testing.TB, content []byte) {
	t.Helper()
	if _, err := b.w.Write(content[:1]); err != nil {
		t.Error(err)
	}
}

// complete sends the rest.
func (b *slowBody) complete(t testing.TB, content []byte) {
	t.Helper()
	if _, err := b.w.Write(content[1:]); err != nil {
		t.Error(err)
	}
	if err := b.w.Close(); err != nil {
		t.Error(err)
	}
}

// dial is a client that writes and reads bytes itself.
func (a *testAPI) dial(t testing.TB, text string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", a.addr, testTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}
