// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates of the local cluster and keeps them in files.
//
// Everything is made once and read again later. What is missing, damaged, about to expire, or not what is asked for is
// made anew, so a run that was killed between two files heals by itself.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// validity is long: the cluster is thrown away, but a laptop may keep one for months.
	validity = 10 * 365 * 24 * time.Hour
	// renewBefore is how much must be left of a certificate that is used again.
	renewBefore = 30 * 24 * time.Hour
	// backdate forgives clocks that are a little behind.
	backdate = time.Hour
)

// Pair is a certificate and its key, in memory and in files.
type Pair struct {
	// CertFile and KeyFile are PEM files.
	CertFile, KeyFile string
	// CertPEM and KeyPEM are their content.
	CertPEM, KeyPEM []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Leaf says what a certificate is for.
type Leaf struct {
	// Name is the file name without its ending.
	Name string
	// CommonName and Organizations are what the API server sees as the user and the groups.
	CommonName    string
	Organizations []string
	// Hosts are the DNS names and IP addresses of a server.
	Hosts []string
}

// NewCA reads or makes a certificate authority with the files dir/name.crt and dir/name.key.
func NewCA(dir, name string, now time.Time) (Pair, error) {
	want := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "sless-cluster " + name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	return ensure(dir, name, want, nil, now)
}

// Issue reads or makes a certificate that is signed by the authority and good for clients and servers.
func Issue(dir string, ca Pair, leaf Leaf, now time.Time) (Pair, error) {
	want := &x509.Certificate{
		Subject:               pkix.Name{CommonName: leaf.CommonName, Organization: leaf.Organizations},
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range leaf.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			want.IPAddresses = append(want.IPAddresses, ip)
		} else {
			want.DNSNames = append(want.DNSNames, host)
		}
	}
	return ensure(dir, leaf.Name, want, &ca, now)
}

// ensure gives the pair in the files when it is still right, else a new one.
func ensure(dir, name string, want *x509.Certificate, ca *Pair, now time.Time) (Pair, error) {
	p := Pair{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
	if p.load() == nil && p.fits(want, ca, now) {
		return p, nil
	}
	if err := p.create(want, ca, now); err != nil {
		return Pair{}, fmt.Errorf("making certificate %s: %w", name, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Pair{}, err
	}
	if err := WriteFile(p.KeyFile, p.KeyPEM, 0o600); err != nil {
		return Pair{}, err
	}
	return p, WriteFile(p.CertFile, p.CertPEM, 0o644)
}

func (p *Pair) load() error {
	var err error
	if p.CertPEM, err = os.ReadFile(p.CertFile); err != nil {
		return err
	}
	if p.KeyPEM, err = os.ReadFile(p.KeyFile); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(p.CertPEM, p.KeyPEM)
	if err != nil {
		return err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("%s holds a key of another kind", p.KeyFile)
	}
	p.key, p.cert = key, pair.Leaf
	return nil
}

// fits says whether the loaded certificate can serve for what is wanted.
func (p *Pair) fits(want *x509.Certificate, ca *Pair, now time.Time) bool {
	signer := p.cert
	if ca != nil {
		signer = ca.cert
	}
	sameIPs := slices.EqualFunc(p.cert.IPAddresses, want.IPAddresses, func(a, b net.IP) bool { return a.Equal(b) })
	return now.Add(renewBefore).Before(p.cert.NotAfter) && !now.Before(p.cert.NotBefore) &&
		p.cert.CheckSignatureFrom(signer) == nil &&
		p.cert.Subject.CommonName == want.Subject.CommonName &&
		slices.Equal(p.cert.Subject.Organization, want.Subject.Organization) &&
		slices.Equal(p.cert.DNSNames, want.DNSNames) && sameIPs
}

// create makes a new key and certificate in memory.
func (p *Pair) create(want *x509.Certificate, ca *Pair, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	want.SerialNumber = serial
	want.NotBefore, want.NotAfter = now.Add(-backdate).UTC(), now.Add(validity).UTC()
	parent, signer := want, key
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, want, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	if p.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	p.key = key
	p.CertPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	p.KeyPEM, err = keyPEM(key)
	return err
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// SigningKey reads or makes the key pair that signs service account tokens and gives its two files.
func SigningKey(dir, name string) (privateFile, publicFile string, err error) {
	privateFile, publicFile = filepath.Join(dir, name+".key"), filepath.Join(dir, name+".pub")
	key, err := readKey(privateFile)
	if err != nil {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return "", "", err
		}
		data, err := keyPEM(key)
		if err != nil {
			return "", "", err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", "", err
		}
		if err := WriteFile(privateFile, data, 0o600); err != nil {
			return "", "", err
		}
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return privateFile, publicFile, WriteFile(publicFile, public, 0o644)
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file", path)
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

// WriteFile writes a file whole or not at all, and leaves one alone that already has this content.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	if have, err := os.ReadFile(path); err == nil && slices.Equal(have, data) {
		return os.Chmod(path, mode)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if _, err := tmp.Write(data); err != nil {
		_ = tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := os.Chmod(tmp.Name(), mode); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
