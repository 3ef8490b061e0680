// SPDX-License-Identifier: Apache-2.0

package api

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/naeel/sless/internal/archive"
)

// TestTooManyUploads fills the places of one namespace, and then those of all.
func TestTooManyUploads(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{"busy-1", "busy-2", "busy-3"} {
		createFunction(t, subject, "hello")
	}
	a := startAPI(t, func(c *Config) { c.MaxUploads = 4 })
	content := zipOf(t, "handler.py", "1")
	var bodies []*slowBody
	done := make(chan response, 4)
	hold := func(subject string) {
		body := newSlowBody()
		bodies = append(bodies, body)
		go func() { done <- a.upload(t, subject, "hello", body) }()
		body.begin(t, content)
	}
	try := func(subject string) response { return a.upload(t, subject, "hello", bytes.NewReader(content)) }

	hold("busy-1")
	hold("busy-1")
	checkError(t, try("busy-1"), http.StatusTooManyRequests, "too many uploads")
	wantUploaded(t, try("busy-2"))
	hold("busy-2")
	hold("busy-2")
	checkError(t, try("busy-3"), http.StatusTooManyRequests, "too many uploads")
	if left := names(t, a.uploadDir); len(left) > 0 {
		t.Errorf("files with names while uploads go on: %q", left)
	}
	for _, body := range bodies {
		body.complete(t, content)
		wantUploaded(t, <-done)
	}
	wantUploaded(t, try("busy-3"))
}

// TestClientGoesAway gives its place back.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	createFunction(t, "gone", "hello")
	a := startAPI(t, func(c *Config) { c.MaxUploads = 1 })
	content, body, done := zipOf(t, "handler.py", "1"), newSlowBody(), make(chan error, 1)
	go func() {
		_, err := a.trySend(t, request{
			method: http.MethodPost, path: uploadPath("gone", "hello"), token: tokenOf("gone"), body: body,
		})
		done <- err
	}()
	body.begin(t, content)
	_ = body.w.CloseWithError(io.ErrUnexpectedEOF)
	if err := <-done; err == nil {
		t.Error("the client got an answer")
	}
	eventually(t, "the place is free", func() bool {
		return a.upload(t, "gone", "hello", bytes.NewReader(content)).status == http.StatusOK
	})
}

// TestClientStalls has clients that announce a body and never send it. The clock stands far in the past, so that their
// time is over at once.
func TestClientStalls(t *testing.T) {
	t.Parallel()
	past := func(c *Config) { c.Now = func() time.Time { return time.Unix(1, 0) } }
	read := func(a *testAPI, head string) *http.Response {
		t.Helper()
		res, err := http.ReadResponse(bufio.NewReader(a.dial(t, head)), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	a := startAPI(t, past)
	if res := read(a, "POST /v1/openapi.json HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"); res.StatusCode != 401 || !res.Close {
		t.Errorf("without a token: %d, closes: %v", res.StatusCode, res.Close)
	}
	createFunction(t, "stall", "hello")
	head := "POST " + uploadPath("stall", "hello") + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nAuthorization: Bearer " +
		tokenOf("stall") + "\r\n\r\nPK"
	if res := read(a, head); res.StatusCode != http.StatusRequestTimeout || !res.Close {
		t.Errorf("an upload: %d, closes: %v", res.StatusCode, res.Close)
	}
}

// TestKeepAlive uses one connection for several uploads: no deadline of one may end the next.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	createFunction(t, "keep", "hello")
	a := startAPI(t)
	conn := a.dial(t, "")
	reader := bufio.NewReader(conn)
	content := zipOf(t, "handler.py", "1")
	for range 3 {
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nAuthorization: Bearer %s\r\n\r\n%s",
			uploadPath("keep", "hello"), len(content), tokenOf("keep"), content)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK || res.Close {
			t.Errorf("got %d, closes: %v, %v", res.StatusCode, res.Close, err)
		}
	}
}

// TestNoRoom has no folder for uploads.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	createFunction(t, "room", "hello")
	a := startAPI(t, func(c *Config) { c.UploadDir = filepath.Join(c.UploadDir, "missing") })
	got := a.upload(t, "room", "hello", bytes.NewReader(zipOf(t, "handler.py", "1")))
	checkError(t, got, http.StatusInternalServerError, "its log says why")
	if strings.Contains(got.body, "missing") {
		t.Errorf("the answer shows the gateway's files: %s", got.body)
	}
}

func TestExplainDisk(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err    error
		wantOK bool
	}{
		"full":   {err: &os.PathError{Op: "write", Path: "/tmp/x", Err: syscall.ENOSPC}, wantOK: true},
		"quota":  {err: &os.PathError{Op: "write", Path: "/tmp/x", Err: syscall.EDQUOT}, wantOK: true},
		"broken": {err: &os.PathError{Op: "write", Path: "/tmp/x", Err: syscall.EIO}},
	} {
		got, ok := errors.AsType[*Error](explainZip(tc.err))
		if ok != tc.wantOK || (ok && (got.Status != http.StatusServiceUnavailable || strings.Contains(got.Message, "/tmp"))) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestNobodyWaits stops the making of an archive when the client is gone.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var buf bytes.Buffer
	w := &contextWriter{ctx: ctx, w: &buf}
	content := zipOf(t, "handler.py", "1")
	opt := archive.Options{Prefix: archive.CodePrefix}
	if _, err := archive.FromZip(bytes.NewReader(content), int64(len(content)), w, opt); err != nil || buf.Len() == 0 {
		t.Errorf("while the client waits: %d bytes, %v", buf.Len(), err)
	}
	cancel()
	if _, err := archive.FromZip(bytes.NewReader(content), int64(len(content)), w, opt); !errors.Is(err, context.Canceled) {
		t.Errorf("when it is gone: %v", err)
	}
}

// maxHeapGrowth is far below the zip, and above the buffers of the compressor, of the store's client and of the test.
const maxHeapGrowth = 16 << 20

// TestUploadInConstantMemory uploads a zip of nearly 50 MiB that does not compress. Client, gateway and store share the
// heap that is measured. It is not parallel, so that no other test's memory counts.
func TestUploadInConstantMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 150 MiB")
	}
	createFunction(t, "memory", "hello")
	var stored atomic.Int64
	var decoded atomic.Value // string: the length of the object, without the framing of the upload
	store := storeAt(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			n, _ := io.Copy(io.Discard, r.Body)
			stored.Store(n)
			decoded.Store(r.Header.Get("X-Amz-Decoded-Content-Length"))
		case stored.Load() == 0:
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Header().Set("Content-Length", decoded.Load().(string))
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		}
	})
	a := startAPI(t, func(c *Config) { c.Store = store })
	zipFile := largeZip(t)

	ctx, cancel := context.WithCancel(t.Context())
	peak := make(chan uint64)
	before := heap()
	go func() { peak <- watchHeap(ctx) }()
	answer := wantUploaded(t, a.upload(t, "memory", "hello", onlyReader{zipFile}))
	cancel()
	growth := int64(<-peak) - int64(before)
	t.Logf("%d bytes were stored, the heap grew by at most %.1f MiB", answer.SizeBytes, float64(growth)/(1<<20))
	if growth > maxHeapGrowth || answer.SizeBytes < 48<<20 || stored.Load() < answer.SizeBytes {
		t.Errorf("the heap grew by %d bytes for %d stored ones of %d", growth, stored.Load(), answer.SizeBytes)
	}
}

// largeZip is a file of just under 50 MiB with content that does not compress.
func largeZip(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "large.zip"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	w := zip.NewWriter(f)
	random := rand.NewChaCha8([32]byte{1})
	left := archive.DefaultLimits.MaxZipBytes - 64<<10
	for i := 0; left > 0; i++ {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("data/%d.bin", i), Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(entry, io.LimitReader(random, min(left, 10<<20)))
		if err != nil {
			t.Fatal(err)
		}
		left -= n
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	return f
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func watchHeap(ctx context.Context) (peak uint64) {
	var m runtime.MemStats
	for ctx.Err() == nil {
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
		time.Sleep(5 * time.Millisecond)
	}
	return peak
}
