// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"crypto/x509"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
)

// WebhookCertificate returns what the Secret of the webhooks' certificate holds, with an authority and a certificate that
// end at the given times. It is as right as one that the manager made, but for that.
func WebhookCertificate(authorityEnds, certificateEnds time.Time, host string, more ...string) map[string][]byte {
	maker := &rotator.CertRotator{
		CAName: "sless-webhooks", CAOrganization: "sless", DNSName: host, ExtraDNSNames: append([]string{host + ".cluster.local"}, more...),
		ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	begin := time.Now().Add(-time.Hour)
	authority, err := maker.CreateCACert(begin, authorityEnds)
	if err != nil {
		panic(err) // Only the machine's random numbers can fail.
	}
	cert, key, err := maker.CreateCertPEM(authority, begin, certificateEnds)
	if err != nil {
		panic(err)
	}
	return map[string][]byte{"ca.crt": authority.CertPEM, "ca.key": authority.KeyPEM, "tls.crt": cert, "tls.key": key}
}
