// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func leaf() Leaf {
	return Leaf{
		Name: "server", CommonName: "system:node:a", Organizations: []string{"system:nodes"},
		Hosts: []string{"localhost", "10.244.0.1"},
	}
}

func mustCA(t *testing.T, dir string) Pair {
	t.Helper()
	ca, err := NewCA(dir, "ca", start())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestIssue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := mustCA(t, dir)
	pair, err := Issue(dir, ca, leaf(), start())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.CertPEM)
	for _, name := range []string{"localhost", "10.244.0.1"} {
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			_, err := pair.cert.Verify(x509.VerifyOptions{
				DNSName: name, Roots: roots, CurrentTime: start().AddDate(5, 0, 0), KeyUsages: []x509.ExtKeyUsage{usage},
			})
			if err != nil {
				t.Errorf("certificate for %s: %v", name, err)
			}
		}
	}
	if diff := cmp.Diff([]string{"system:nodes"}, pair.cert.Subject.Organization); diff != "" {
		t.Errorf("organizations (-want +got):\n%s", diff)
	}
	info, err := os.Stat(pair.KeyFile)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", info.Mode(), err)
	}
}

type againCase struct {
	change   func(t *testing.T, dir string, first Pair, l *Leaf)
	later    time.Duration
	wantSame bool
}

func againCases() map[string]againCase {
	return map[string]againCase{
		"nothing has changed": {wantSame: true, later: time.Hour},
		"it is about to expire": {
			later: validity - time.Hour,
		},
		"another host": {
			change: func(_ *testing.T, _ string, _ Pair, l *Leaf) { l.Hosts = append(l.Hosts, "10.96.0.1") },
		},
		"another group": {
			change: func(_ *testing.T, _ string, _ Pair, l *Leaf) { l.Organizations = nil },
		},
		"the key is missing": {
			change: func(t *testing.T, _ string, first Pair, _ *Leaf) { remove(t, first.KeyFile) },
		},
		"the certificate is cut off": {
			change: func(t *testing.T, _ string, first Pair, _ *Leaf) {
				if err := os.WriteFile(first.CertFile, first.CertPEM[:100], 0o600); err != nil {
					t.Fatal(err)
				}
			},
		},
		"a run was stopped between key and certificate": {
			change: func(t *testing.T, dir string, first Pair, _ *Leaf) {
				other := mustCA(t, t.TempDir())
				if err := os.WriteFile(first.KeyFile, other.KeyPEM, 0o600); err != nil {
					t.Fatal(err)
				}
			},
		},
		"the authority is new": {
			change: func(t *testing.T, dir string, _ Pair, _ *Leaf) { remove(t, dir+"/ca.key") },
		},
	}
}

// TestIssueAgain says when a certificate is used again and when it is made anew.
func TestIssueAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range againCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, l := t.TempDir(), leaf()
			first, err := Issue(dir, mustCA(t, dir), l, start())
			if err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				tc.change(t, dir, first, &l)
			}
			now := start().Add(tc.later)
			ca, err := NewCA(dir, "ca", now)
			if err != nil {
				t.Fatal(err)
			}
			second, err := Issue(dir, ca, l, now)
			if err != nil {
				t.Fatal(err)
			}
			if same := cmp.Equal(first.CertPEM, second.CertPEM); same != tc.wantSame {
				t.Errorf("the certificate is the same: %v, want %v", same, tc.wantSame)
			}
			if err := second.cert.CheckSignatureFrom(ca.cert); err != nil {
				t.Error(err)
			}
			third, err := Issue(dir, ca, l, now)
			if err != nil || !cmp.Equal(second.CertPEM, third.CertPEM) {
				t.Errorf("the files do not hold what was made: %v", err)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestSigningKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	private, public, err := SigningKey(dir, "service-account")
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	firstPrivate, firstPublic := read(private), read(public)
	// The public file follows from the private one, which must never change: it would end all tokens.
	remove(t, public)
	if _, _, err := SigningKey(dir, "service-account"); err != nil {
		t.Fatal(err)
	}
	if read(private) != firstPrivate || read(public) != firstPublic {
		t.Error("the key has changed")
	}
}
