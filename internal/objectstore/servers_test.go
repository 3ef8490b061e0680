// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
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

// startVersitygw runs a real S3 server on a folder of the test and gives its URL.
func startVersitygw(t *testing.T) string {
	t.Helper()
	binary := os.Getenv(versitygwEnv)
	if binary == "" {
		t.Skip(versitygwEnv + " is not set")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, "--quiet", "--port", address, "posix", "--sidecar", t.TempDir(), t.TempDir())
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
			return "http://" + address
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
