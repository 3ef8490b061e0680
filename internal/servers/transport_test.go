// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func get(t *testing.T, caFile, url string) error {
	t.Helper()
	transport, err := NewTransport(caFile, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func TestNewTransportTrustsTheNamedCertificates(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	if err := get(t, "", server.URL); !IsCertificateFault(err) {
		t.Errorf("an unknown certificate gives %v, want a certificate fault", err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := get(t, file, server.URL); err != nil {
		t.Errorf("a trusted certificate gives %v", err)
	}
}

func TestNewTransportRefusesBadFiles(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, filepath.Join(t.TempDir(), "none")} {
		if _, err := NewTransport(file, time.Minute); err == nil {
			t.Errorf("CA file %s is taken", file)
		}
	}
}

func TestIsCertificateFault(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer plain.Close()
	if err := get(t, "", "https"+plain.URL[len("http"):]); !IsCertificateFault(err) {
		t.Errorf("TLS to a plain server gives %v, want a certificate fault", err)
	}
	plain.Close()
	if err := get(t, "", plain.URL); err == nil || IsCertificateFault(err) {
		t.Errorf("a server that is gone gives %v", err)
	}
	if IsCertificateFault(nil) {
		t.Error("no error is a certificate fault")
	}
}
