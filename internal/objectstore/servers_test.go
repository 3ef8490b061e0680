// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"k8s.io/client-go/util/cert"
)

const (
	testAccessKey = "test-access-key"
	testSecretKey = "test-secret-key-that-nobody-may-see"
)

// versitygwEnv names the variable with the path of a versitygw binary; the tests that need one are skipped without it.
const versitygwEnv = "SLESS_TEST_VERSITYGW"

func testConfig(server string) Config {
	return Config{
		Endpoint:  server,
		Bucket:    "sless",
		PathStyle: true,
		Insecure:  strings.HasPrefix(server, "http://"),
		AccessKey: testAccessKey,
		SecretKey: testSecretKey,
	}
}

func newTestStore(t *testing.T, cfg Config) *S3 {
	t.Helper()
	store, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// startFake runs an S3 server in this process and gives its URL.
func startFake(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(server.Close)
	return server.URL
}

// startFakeWithClock runs one whose clock is off.
func startFakeWithClock(t *testing.T, off time.Duration) string {
	t.Helper()
	times := shiftedTime{gofakes3.DefaultTimeSource(), off}
	fake := gofakes3.New(s3mem.New(s3mem.WithTimeSource(times)), gofakes3.WithTimeSource(times)).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", times.Now().UTC().Format(http.TimeFormat))
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

type shiftedTime struct {
	gofakes3.TimeSource
	off time.Duration
}

func (s shiftedTime) Now() time.Time { return s.TimeSource.Now().Add(s.off) }

// startVersitygw runs a real S3 server on a folder of the test and gives its URL.
func startVersitygw(t *testing.T) string {
	t.Helper()
	return "http://" + runVersitygw(t)
}

// startVersitygwTLS runs it with a certificate that its authority's file makes trusted.
func startVersitygwTLS(t *testing.T) (url, caFile string) {
	t.Helper()
	chain, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certFile, keyFile := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	if err := errors.Join(os.WriteFile(certFile, chain, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	// The chain ends with the authority.
	return "https://" + runVersitygw(t, "--cert", certFile, "--key", keyFile), certFile
}

// startFakeTLS runs an S3 server in this process that has a certificate of its own.
func startFakeTLS(t *testing.T) (url, caFile string) {
	t.Helper()
	server := httptest.NewUnstartedServer(gofakes3.New(s3mem.New()).Server())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what is tested
	server.StartTLS()
	t.Cleanup(server.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, caFile
}

func runVersitygw(t *testing.T, options ...string) (address string) {
	t.Helper()
	binary := os.Getenv(versitygwEnv)
	if binary == "" {
		t.Skip(versitygwEnv + " is not set")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"--quiet", "--port", address}, options, []string{"posix", "--sidecar", t.TempDir(), t.TempDir()})
	command := exec.Command(binary, args...)
	command.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+testAccessKey, "ROOT_SECRET_KEY="+testSecretKey)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for range 200 {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return address
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("versitygw does not listen on %s", address)
	return ""
}

// startHandler runs a server that answers as handler says.
func startHandler(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}
