// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/testutil"
)

// What config/local tells the gateway about whose tokens it takes, and where its API port is.
const (
	nodeAddress   = "10.244.0.1"
	issuerAddress = nodeAddress + ":18099"
	tokenAudience = "sless"
	apiURL        = "http://" + nodeAddress + ":30081"
	benchTenant   = "bench-tenant"
	// largeZip is a little below the largest upload of 50 MiB. Random bytes cannot be compressed, so the unpacked code is
	// about as large.
	largeZip      = 49 << 20
	uploadTimeout = 2 * time.Minute
)

// uploader uploads code for one Function of a tenant.
type uploader struct {
	b     *bench
	fn    *v1alpha1.Function
	token string
}

// measureUpload uploads the same zip again, which must change nothing, and then large ones, while it looks at the memory
// of the gateway.
func measureUpload(ctx context.Context, b *bench, runs int) ([]*table, error) {
	if b.opts.cluster != clusterLocal {
		b.say("Leaving uploads out: only the local cluster takes the tokens of this program")
		return nil, nil
	}
	u, stop, err := b.newUploader(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	again := &table{block: "upload", title: "Uploading the same zip again, 1 KB of code",
		columns: sampleColumns("from the start of the upload to")}
	memory := &table{block: "upload-memory", title: "Uploading 49 MiB that cannot be compressed",
		columns: []string{"upload", "answered after", "memory before", "highest", "more"}}
	tables := []*table{again, memory}
	if err := u.measureAgain(ctx, runs, again); err != nil {
		return tables, errors.Join(err, u.remove(ctx))
	}
	return tables, errors.Join(u.measureMemory(ctx, memory), u.remove(ctx))
}

// newUploader starts an issuer of tokens and makes a Function that waits for an upload.
func (b *bench) newUploader(ctx context.Context) (*uploader, func(), error) {
	issuer, err := testutil.NewTokenIssuer()
	if err != nil {
		return nil, nil, err
	}
	token, err := issuer.Token("http://"+issuerAddress, tokenAudience, benchTenant)
	if err != nil {
		return nil, nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", issuerAddress)
	if err != nil {
		return nil, nil, fmt.Errorf("starting the issuer of tokens: %w", err)
	}
	server := &http.Server{Handler: issuer, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	stop := func() { _ = server.Close() }

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: naming.TenantNamespace(benchTenant)}}
	if err := b.client.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		stop()
		return nil, nil, fmt.Errorf("making namespace %s: %w", namespace.Name, err)
	}
	fn := &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "upload", Namespace: namespace.Name},
		Spec: v1alpha1.FunctionSpec{
			Runtime: "python3.11", Source: v1alpha1.FunctionSource{Upload: &v1alpha1.UploadSource{}},
		},
	}
	if err := b.client.Create(ctx, fn); client.IgnoreAlreadyExists(err) != nil {
		stop()
		return nil, nil, fmt.Errorf("making Function %s: %w", fn.Name, err)
	}
	return &uploader{b: b, fn: fn, token: token}, stop, nil
}

// measureAgain uploads the same small zip over and over.
func (u *uploader) measureAgain(ctx context.Context, runs int, t *table) error {
	code, err := zipOf(map[string]io.Reader{
		"handler.py": strings.NewReader("def handle(event, context):\n    return 'uploaded'\n"),
		"words.txt":  strings.NewReader(strings.Repeat("some words of data\n", 50)),
	})
	if err != nil {
		return err
	}
	u.b.say("Uploading code the first time")
	if _, err := u.upload(ctx, code); err != nil {
		return err
	}
	before, err := u.waitReady(ctx)
	if err != nil {
		return err
	}
	answered, ready := &sample{name: "the gateway's answer"}, &sample{name: "Function seen Ready"}
	for range runs {
		began := u.b.now()
		unchanged, err := u.upload(ctx, code)
		if err != nil {
			return err
		}
		answered.add(u.b.now().Sub(began))
		after, err := u.waitReady(ctx)
		if err != nil {
			return err
		}
		ready.add(u.b.now().Sub(began))
		if !unchanged || after.ResourceVersion != before.ResourceVersion {
			u.b.wrongAnswer("uploading the same zip again changed the Function")
		}
	}
	t.rows = append(t.rows, answered.row(), ready.row())
	return nil
}

// measureMemory uploads large zips, each with other code.
func (u *uploader) measureMemory(ctx context.Context, t *table) error {
	for run := range 3 {
		code, err := zipOf(map[string]io.Reader{
			"handler.py": strings.NewReader("def handle(event, context):\n    return 'large'\n"),
			"data.bin":   io.LimitReader(randomBytes(uint64(u.b.began.UnixNano()), uint64(run)), largeZip), //nolint:gosec // Any bits do.
		})
		if err != nil {
			return err
		}
		before, err := u.b.gatewayMemory(ctx)
		if err != nil {
			return err
		}
		began := u.b.now()
		highest, err := u.b.watchMemory(ctx, func() error {
			_, err := u.upload(ctx, code)
			return err
		})
		if err != nil {
			return err
		}
		took := u.b.now().Sub(began)
		highest = max(highest, before)
		u.b.say("Upload %d of %.0f MiB took %s; memory of the gateway %s, at most %s", run+1, mebibytes(float64(len(code))),
			showDuration(took), showMemory(before), showMemory(highest))
		t.add(fmt.Sprintf("%d., %.0f MiB", run+1, mebibytes(float64(len(code)))), showDuration(took), showMemory(before),
			showMemory(highest), showMemory(highest-before))
	}
	return nil
}

// randomBytes returns an endless stream, another one for each pair of seeds.
func randomBytes(seed, run uint64) io.Reader {
	key := [32]byte{}
	for i := range 8 {
		key[i], key[8+i] = byte(seed>>(8*i)), byte(run>>(8*i))
	}
	return rand.NewChaCha8(key)
}

func zipOf(files map[string]io.Reader) ([]byte, error) {
	out := &bytes.Buffer{}
	w := zip.NewWriter(out)
	for name, content := range files {
		f, err := w.Create(name)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(f, content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// upload sends a zip and tells whether the gateway found it unchanged.
func (u *uploader) upload(ctx context.Context, code []byte) (unchanged bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	url := apiURL + "/v1/namespaces/" + u.fn.Namespace + "/functions/" + u.fn.Name + "/upload"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(code))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/zip")
	req.Header.Set("Authorization", "Bearer "+u.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, fmt.Errorf("uploading: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return false, fmt.Errorf("reading the answer to the upload: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("the upload was answered with %s: %s", resp.Status, body)
	}
	answer := struct {
		Unchanged bool `json:"unchanged"`
	}{}
	return answer.Unchanged, json.Unmarshal(body, &answer)
}

// waitReady returns the Function once its status says Ready about the spec as it is now.
func (u *uploader) waitReady(ctx context.Context) (*v1alpha1.Function, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	fn := &v1alpha1.Function{}
	for {
		if err := u.b.client.Get(ctx, client.ObjectKeyFromObject(u.fn), fn); err != nil {
			return nil, fmt.Errorf("reading Function %s: %w", u.fn.Name, err)
		}
		if isReady(fn, fn.Generation) {
			return fn, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("function %s did not get ready: %w", u.fn.Name, err)
		}
	}
}

// remove deletes the Function and waits until it is gone, also when ctx has ended.
func (u *uploader) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	err := client.IgnoreNotFound(u.b.client.Delete(ctx, u.fn))
	for err == nil {
		if err = u.b.client.Get(ctx, client.ObjectKeyFromObject(u.fn), &v1alpha1.Function{}); err == nil {
			err = sleep(ctx, pause)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("removing Function %s: %w", u.fn.Name, err)
}
