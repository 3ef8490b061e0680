// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
)

// Explained is an error whose text says what whoever runs sless can do about it.
type Explained struct {
	// Text is for people who see no log.
	Text string
	// Err is what happened.
	Err error
}

func (e *Explained) Error() string { return e.Text }

// Unwrap gives the cause.
func (e *Explained) Unwrap() error { return e.Err }

// Explain turns a certificate fault into one that says what to do, and gives any other error as it is. server is how people
// call the server, and section the part of the configuration that is about it. The text is the same each time, so that it
// can stand in a condition.
func Explain(err error, server, section string) error {
	var (
		wrongHost x509.HostnameError
		invalid   x509.CertificateInvalidError
		wrongCert *tls.CertificateVerificationError
	)
	said := func(format string, args ...any) error {
		return &Explained{Text: "the " + server + fmt.Sprintf(format, args...), Err: err}
	}
	switch {
	case !IsCertificateFault(err):
		return err
	case errors.Is(err, http.ErrSchemeMismatch):
		return said(" speaks plain HTTP where TLS is expected; if it is meant to, say so with %s.insecure", section)
	case errors.As(err, &wrongHost):
		return said("'s certificate is for another name (%v); give it one for the name in the configuration, or use its name there",
			wrongHost)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return said("'s certificate, or that of its authority, has expired or is not valid yet; renew it, or set the clock right")
	}
	cause := err
	if errors.As(err, &wrongCert) {
		cause = wrongCert.Err
	}
	return said("'s certificate is not trusted (%v); put the certificate of the authority that signed it into the file that "+
		"%s.caFile names, and restart sless", cause, section)
}
