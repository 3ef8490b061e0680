// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
)

// wantStored checks that the store has what the answer promises, as the same files would give it inline.
func wantStored(t *testing.T, a *testAPI, subject string, answer uploadAnswer, files map[string]string) {
	t.Helper()
	want, err := archive.FromFiles(files, archive.Options{Prefix: "app/"})
	if err != nil {
		t.Fatal(err)
	}
	if "sha256:"+answer.SHA256 != want.Digest || answer.SizeBytes != int64(len(want.Data)) {
		t.Errorf("got %+v, want %s of %d bytes", answer, want.Digest, len(want.Data))
	}
	key := objectstore.CodeKey(naming.TenantNamespace(subject), answer.SHA256)
	r, _, err := objectstore.OpenVerified(t.Context(), a.store, key, answer.SHA256, answer.SizeBytes)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, want.Data) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// TestUploadStory follows a Function from its first upload over the same code again to other code.
func TestUploadStory(t *testing.T) {
	t.Parallel()
	createFunction(t, "story", "hello")
	a := startAPI(t)
	files := map[string]string{"handler.py": "def handle(e): return 1\n", "lib/x.py": "x = 1\n"}
	first := wantUploaded(t, a.upload(t, "story", "hello", bytes.NewReader(zipOf(t,
		"handler.py", files["handler.py"], "lib/x.py", files["lib/x.py"]))))
	wantStored(t, a, "story", first, files)
	fn := readHello(t, "story")
	if got := *fn.Spec.Source.Upload; got.SHA256 != first.SHA256 || got.SizeBytes != first.SizeBytes {
		t.Errorf("the Function has %+v, want %+v", got, first)
	}
	if first.Unchanged || first.Entries != 3 {
		t.Errorf("got %+v", first)
	}
	checkOwner(t, fn)

	again := wantUploaded(t, a.upload(t, "story", "hello", bytes.NewReader(zipOf(t,
		"lib/x.py", files["lib/x.py"], "handler.py", files["handler.py"]))))
	if !again.Unchanged || again.SHA256 != first.SHA256 {
		t.Errorf("the same files in another order gave %+v", again)
	}
	if now := readHello(t, "story"); now.ResourceVersion != fn.ResourceVersion || a.store.puts.Load() != 1 {
		t.Errorf("the same code was written again, in the cluster or %d times into the store", a.store.puts.Load())
	}

	files = map[string]string{"handler.py": "def handle(e): return 2\n"}
	next := wantUploaded(t, a.upload(t, "story", "hello", bytes.NewReader(zipOf(t, "handler.py", files["handler.py"]))))
	wantStored(t, a, "story", next, files)
	if now := readHello(t, "story"); next.Unchanged || now.Spec.Source.Upload.SHA256 != next.SHA256 {
		t.Errorf("other code: %+v, the Function has %+v", next, now.Spec.Source.Upload)
	}
}

// checkOwner checks that the fields belong to the gateway.
func checkOwner(t *testing.T, fn *v1alpha1.Function) {
	t.Helper()
	for _, m := range fn.ManagedFields {
		if m.Manager == v1alpha1.FieldOwnerGateway && m.Operation == "Apply" {
			if got := string(m.FieldsV1.GetRawBytes()); got !=
				`{"f:spec":{"f:source":{"f:upload":{"f:sha256":{},"f:sizeBytes":{}}}}}` {
				t.Errorf("the gateway owns %s", got)
			}
			return
		}
	}
	t.Errorf("the gateway owns nothing: %v", fn.ManagedFields)
}

// TestUserAppliesAgain has a user who applies the same manifest before and after an upload, as GitOps does.
func TestUserAppliesAgain(t *testing.T) {
	t.Parallel()
	createFunction(t, "gitops", "other") // for the namespace
	hello := types.NamespacedName{Namespace: naming.TenantNamespace("gitops"), Name: "hello"}
	t.Cleanup(func() { removeFunction(t, hello) })
	a := startAPI(t)
	apply := func(memory string) {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"runtime": "python3.11", "source": map[string]any{"upload": map[string]any{}},
			"resources": map[string]any{"limits": map[string]any{"memory": memory}},
		}}}
		u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Function"))
		u.SetNamespace(hello.Namespace)
		u.SetName(hello.Name)
		if err := cluster.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u),
			client.FieldOwner("kubectl")); err != nil {
			t.Fatal(err)
		}
	}
	apply("64Mi")
	answer := wantUploaded(t, a.upload(t, "gitops", "hello", bytes.NewReader(zipOf(t, "handler.py", "1"))))
	apply("128Mi")
	fn := readHello(t, "gitops")
	if fn.Spec.Source.Upload.SHA256 != answer.SHA256 || fn.Spec.Resources.Limits.Memory().String() != "128Mi" {
		t.Errorf("after the second apply: %+v", fn.Spec)
	}
}

func TestUploadRefuses(t *testing.T) {
	t.Parallel()
	createFunction(t, "bad", "hello")
	createFunction(t, "bad", "inline", func(fn *v1alpha1.Function) {
		fn.Spec.Source = v1alpha1.FunctionSource{Inline: &v1alpha1.InlineSource{Files: map[string]string{"handler.py": "1"}}}
	})
	deleteFunction(t, createFunction(t, "bad", "leaving", func(fn *v1alpha1.Function) {
		fn.Finalizers = []string{"sless.io/test"}
	}))
	good := string(zipOf(t, "handler.py", "1"))
	large := archive.DefaultLimits.MaxZipBytes + 1
	a := startAPI(t)
	tests := map[string]struct {
		function   string
		header     map[string]string
		body       io.Reader
		wantStatus int
		wantText   string
	}{
		"no function":    {function: "nobody", wantStatus: 404, wantText: "does not exist; create it first"},
		"no valid name":  {function: "a%20b", wantStatus: 404, wantText: "valid name"},
		"climbing":       {function: "%2e%2e%2fsecrets", wantStatus: 404, wantText: "no such path"},
		"upper case":     {function: "Hello", wantStatus: 404, wantText: "valid name"},
		"another source": {function: "inline", wantStatus: 409, wantText: "set spec.source to {upload: {}}"},
		"being deleted":  {function: "leaving", wantStatus: 409, wantText: "is being deleted"},
		"no body":        {body: http.NoBody, wantStatus: 400, wantText: "is empty"},
		"no zip":         {body: strings.NewReader(strings.Repeat("x", 1000)), wantStatus: 400, wantText: "zip"},
		"a part":         {body: strings.NewReader(good[:len(good)-5]), wantStatus: 400, wantText: "zip"},
		"traversal": {
			body: bytes.NewReader(zipOf(t, "ok", "1", "../../etc/passwd", "x")), wantStatus: 400, wantText: `"../../etc/passwd"`,
		},
		"form": {
			header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, wantStatus: 415,
			wantText: "Content-Type: application/zip",
		},
		"multipart": {header: map[string]string{"Content-Type": "multipart/form-data; boundary=x"}, wantStatus: 415, wantText: "as it is"},
		"encoding":  {header: map[string]string{"Content-Encoding": "gzip"}, wantStatus: 415, wantText: "Content-Encoding"},
		"large": {
			header: map[string]string{"Expect": "100-continue"}, body: io.LimitReader(zeros{}, large), wantStatus: 413, wantText: "50 MiB",
		},
		"large, chunked": {body: onlyReader{io.LimitReader(zeros{}, large)}, wantStatus: 413, wantText: "50 MiB"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := request{
				method: http.MethodPost, path: uploadPath("bad", "hello"), token: tokenOf("bad"), header: tc.header, body: tc.body,
			}
			if tc.function != "" {
				in.path = uploadPath("bad", tc.function)
			}
			if in.body == nil {
				in.body = strings.NewReader(good)
			}
			checkError(t, a.send(t, in), tc.wantStatus, tc.wantText)
		})
	}
	t.Cleanup(func() {
		if a.store.puts.Load() != 0 {
			t.Error("something was stored")
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// onlyReader hides what else a body can do.
type onlyReader struct{ io.Reader }

func TestUploadTypes(t *testing.T) {
	t.Parallel()
	createFunction(t, "types", "hello")
	a := startAPI(t)
	for _, mediaType := range []string{"application/zip", "application/octet-stream", "Application/Zip; x=y", ""} {
		got := a.send(t, request{
			method: http.MethodPost, path: uploadPath("types", "hello"), token: tokenOf("types"),
			header: map[string]string{"Content-Type": mediaType}, body: bytes.NewReader(zipOf(t, "handler.py", "1")),
		})
		wantUploaded(t, got)
	}
}

// TestLargestZip is exactly at the limit, and not a zip: the limit must not be what it is refused for.
func TestLargestZip(t *testing.T) {
	t.Parallel()
	createFunction(t, "largest", "hello")
	a := startAPI(t)
	body := onlyReader{io.LimitReader(zeros{}, archive.DefaultLimits.MaxZipBytes)}
	checkError(t, a.upload(t, "largest", "hello", body), http.StatusBadRequest, "zip")
}

// TestMissingFunctionIsToldBeforeTheBody has a client that waits for the go-ahead, and never gets it.
func TestMissingFunctionIsToldBeforeTheBody(t *testing.T) {
	t.Parallel()
	a := startAPI(t)
	read := false
	got := a.send(t, request{
		method: http.MethodPost, path: uploadPath("early", "nobody"), token: tokenOf("early"),
		header: map[string]string{"Expect": "100-continue"}, body: onRead{func() { read = true }},
	})
	checkError(t, got, http.StatusNotFound, "does not exist")
	if read {
		t.Error("the body was asked for")
	}
}

type onRead struct{ f func() }

func (o onRead) Read([]byte) (int, error) {
	o.f()
	return 0, io.EOF
}

func TestStoreIsDown(t *testing.T) {
	t.Parallel()
	createFunction(t, "down", "hello")
	a := startAPI(t)
	content := zipOf(t, "handler.py", "1")
	for status, want := range map[int32]struct {
		text  string
		again bool
	}{
		http.StatusBadGateway: {"does not take the code now; try again", true},
		http.StatusForbidden:  {"tell the operator", false},
	} {
		a.store.down.Store(status)
		got := a.upload(t, "down", "hello", bytes.NewReader(content))
		checkError(t, got, http.StatusServiceUnavailable, want.text)
		if fn := readHello(t, "down"); fn.Spec.Source.Upload.SHA256 != "" || (got.header.Get("Retry-After") != "") != want.again {
			t.Errorf("%d: the Function has %+v, header %v", status, fn.Spec.Source.Upload, got.header)
		}
	}
	a.store.down.Store(0)
	wantUploaded(t, a.upload(t, "down", "hello", bytes.NewReader(content)))
}

// TestFunctionChangesDuringUpload has something happen to the Function after the upload has begun.
func TestFunctionChangesDuringUpload(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change     func(t *testing.T, fn *v1alpha1.Function)
		wantStatus int
		wantText   string
	}{
		"deleted": {change: func(t *testing.T, fn *v1alpha1.Function) { deleteFunction(t, fn) }, wantStatus: 404, wantText: "does not exist"},
		"replaced": {wantStatus: 409, wantText: "was replaced", change: func(t *testing.T, fn *v1alpha1.Function) {
			deleteFunction(t, fn)
			createFunction(t, "changes", fn.Name)
		}},
		"inlined": {wantStatus: 409, wantText: "has another source", change: func(t *testing.T, fn *v1alpha1.Function) {
			fn.Spec.Source = v1alpha1.FunctionSource{Inline: &v1alpha1.InlineSource{Files: map[string]string{"handler.py": "1"}}}
			if err := cluster.admin.Update(t.Context(), fn); err != nil {
				t.Fatal(err)
			}
		}},
	}
	a := startAPI(t, func(c *Config) { c.MaxUploads = 2 * len(tests) })
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := createFunction(t, "changes", name)
			content, body, done := zipOf(t, "handler.py", name), newSlowBody(), make(chan response, 1)
			go func() { done <- a.upload(t, "changes", name, body) }()
			body.begin(t, content)
			tc.change(t, fn)
			body.complete(t, content)
			checkError(t, <-done, tc.wantStatus, tc.wantText)
			err := cluster.admin.Get(t.Context(), client.ObjectKeyFromObject(fn), fn)
			if name == "deleted" && !apierrors.IsNotFound(err) {
				t.Errorf("the deleted Function came back: %v", err)
			}
			if up := fn.Spec.Source.Upload; err == nil && up != nil && up.SHA256 != "" {
				t.Errorf("the Function was given the code: %+v", up)
			}
		})
	}
}

// TestUploadsAtOnce has many uploads of different code for one function. One of them wins, whole.
func TestUploadsAtOnce(t *testing.T) {
	t.Parallel()
	createFunction(t, "race", "hello")
	a := startAPI(t, func(c *Config) { c.MaxUploads = 16 })
	answers := make([]uploadAnswer, 8)
	var group errgroup.Group
	for i := range answers {
		content := zipOf(t, "handler.py", strings.Repeat(fmt.Sprint(i), i+1))
		group.Go(func() error {
			answers[i] = wantUploaded(t, a.upload(t, "race", "hello", bytes.NewReader(content)))
			return nil
		})
	}
	_ = group.Wait()
	final := *readHello(t, "race").Spec.Source.Upload
	winners := 0
	for i, answer := range answers {
		wantStored(t, a, "race", answer, map[string]string{"handler.py": strings.Repeat(fmt.Sprint(i), i+1)})
		if final.SHA256 == answer.SHA256 && final.SizeBytes == answer.SizeBytes {
			winners++
		}
	}
	if winners != 1 {
		t.Errorf("the Function has %+v, which %d uploads gave", final, winners)
	}
}

// TestUploadOfOldCode has somebody upload code that the store has had for long, and that the manager may be about to clean
// up: it is stored again, so that it is young when the Function names it.
func TestUploadOfOldCode(t *testing.T) {
	t.Parallel()
	createFunction(t, "oldcode", "hello")
	later := time.Now()
	a := startAPI(t, func(c *Config) {
		c.RefreshAfter = time.Hour
		c.Now = func() time.Time { return later }
	})
	code := zipOf(t, "handler.py", "def handle(e): return 1\n")
	for i, step := range []struct {
		passed   time.Duration
		wantPuts int32
	}{{0, 1}, {30 * time.Minute, 1}, {2 * time.Hour, 3}} {
		// The store's own clock does not go on, so that the code stays old: the second look stores it once more.
		later = later.Add(step.passed)
		wantUploaded(t, a.upload(t, "oldcode", "hello", bytes.NewReader(code)))
		if puts := a.store.puts.Load(); puts != step.wantPuts {
			t.Errorf("upload %d: the code was stored %d times, want %d", i, puts, step.wantPuts)
		}
	}
}
