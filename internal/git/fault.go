// SPDX-License-Identifier: Apache-2.0

package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/naeel/sless/internal/archive"
	"github.com/naeel/sless/internal/git/report"
)

// Fault is why a fetch failed, in words for the owner of the function. It holds no credential.
type Fault struct {
	// Reason is one of the reasons of package report.
	Reason  string
	message string
}

func (f *Fault) Error() string { return f.message }

// MayPass tells whether trying again may help.
func (f *Fault) MayPass() bool { return f.Reason == report.Unreachable }

func fault(reason, format string, args ...any) *Fault {
	return &Fault{Reason: reason, message: fmt.Sprintf(format, args...)}
}

// faultOf says what an error means. What a server says in its own words is left out where it could repeat a credential.
func faultOf(ctx context.Context, req Request, err error) error {
	if err == nil {
		return nil
	}
	// go-git wraps some errors in a type that does not show them.
	if wrapper, ok := errors.AsType[*plumbing.UnexpectedError](err); ok {
		err = wrapper.Err
	}
	// A fault stays what it is, however it is wrapped.
	if found, ok := errors.AsType[*Fault](err); ok {
		return found
	}
	if problem, ok := errors.AsType[*archive.Error](err); ok {
		return fault(report.Invalid, "%s", problem.Error())
	}
	if ctx.Err() != nil {
		return fault(report.TimedOut, "the repository was not fetched in time; look whether its server answers, "+
			"or let the operator raise git.timeoutSeconds")
	}
	for _, judge := range []func(Request, error) *Fault{answerFault, tlsFault, sshFault} {
		if found := judge(req, err); found != nil {
			return found
		}
	}
	return fault(reasonOf(err), "%s", redact(err.Error(), req.Credentials))
}

// answerFault judges what the server answered.
func answerFault(req Request, err error) *Fault {
	secret := "name a Secret with a token in spec.source.git.secretName"
	if req.Credentials.Password != "" || len(req.Credentials.Identity) > 0 {
		secret = "check the Secret of spec.source.git.secretName and what it gives access to"
	}
	answer, _ := errors.AsType[*githttp.Err](err)
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed):
		return fault(report.AuthFailed, "the server refuses access to the repository; %s", secret)
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return fault(report.RepositoryNotFound,
			"the server has no such repository, or does not show it; check spec.source.git.url, and %s", secret)
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return fault(report.RevisionNotFound, "the repository is empty; push a commit")
	case strings.Contains(err.Error(), "not our ref"), strings.Contains(err.Error(), "unadvertised object"):
		return fault(report.RevisionNotFound, "the server does not give commit %s; check spec.source.git.revision", req.Revision)
	case answer != nil && (answer.StatusCode() >= http.StatusInternalServerError ||
		answer.StatusCode() == http.StatusTooManyRequests):
		return fault(report.Unreachable, "the server of the repository answers with HTTP status %d", answer.StatusCode())
	case answer != nil:
		return fault(report.RepositoryNotFound,
			"there is no git repository at spec.source.git.url: the server answers with HTTP status %d", answer.StatusCode())
	}
	return nil
}

func tlsFault(_ Request, err error) *Fault {
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, otherHost := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	if unverified || unknown || otherHost || invalid {
		return fault(report.TLSFailed, "the certificate of the server is not trusted: %s; put the certificate authority into the "+
			"key ca.crt of the Secret of spec.source.git.secretName", rootCause(err))
	}
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	if noTLS || errors.Is(err, http.ErrSchemeMismatch) {
		return fault(report.TLSFailed, "the server does not speak TLS at this port; check spec.source.git.url")
	}
	return nil
}

func sshFault(req Request, err error) *Fault {
	if key, ok := errors.AsType[*knownhosts.KeyError](err); ok {
		if len(key.Want) == 0 {
			return fault(report.HostKeyRefused,
				"known_hosts has no key of this server; add the output of ssh-keyscan for it, once you have checked it")
		}
		return fault(report.HostKeyRefused, "the server shows another key than known_hosts has for it; somebody may be in between, "+
			"or the server has a new key: check it before you change known_hosts")
	}
	if _, ok := errors.AsType[*knownhosts.RevokedError](err); ok {
		return fault(report.HostKeyRefused, "the key of the server is marked as revoked in known_hosts")
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "unable to authenticate"):
		return fault(report.AuthFailed, "the server refuses the SSH key; check the key identity of the Secret of "+
			"spec.source.git.secretName, and whether the server knows its public half")
	case strings.Contains(text, "no common algorithm for host key"):
		return fault(report.HostKeyRefused, "the server has no key of a kind that known_hosts has for it")
	case req.isSSH() && strings.Contains(strings.ToLower(text), "permission denied"):
		return fault(report.AuthFailed, "the server does not let this SSH key read the repository")
	}
	return nil
}

func (r Request) isSSH() bool {
	return !strings.HasPrefix(r.URL, "http://") && !strings.HasPrefix(r.URL, "https://")
}

// reasonOf tells a server that cannot be reached from everything else.
func reasonOf(err error) string {
	type network interface {
		Timeout() bool
		Temporary() bool
	}
	var broken network
	_, failed := errors.AsType[*url.Error](err)
	if errors.As(err, &broken) || failed || unexpectedEnd(err) {
		return report.Unreachable
	}
	return report.Failed
}

// unexpectedEnd tells whether a connection ended early. go-git does not keep the kind of all errors.
func unexpectedEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.HasSuffix(err.Error(), "EOF")
}

// rootCause returns the innermost error's words, which tell most with the least.
func rootCause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// redact takes out what a server may have repeated.
func redact(text string, credentials Credentials) string {
	const shortest = 4
	for _, secret := range []string{credentials.Password, credentials.Username} {
		if len(secret) >= shortest {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}
