// SPDX-License-Identifier: Apache-2.0

package git

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/naeel/sless/internal/git/report"
)

const (
	dialTimeout = 15 * time.Second
	// headerTimeout is how long a server may think before it begins to answer. Packing a large repository takes a while.
	headerTimeout = time.Minute
	// maxRefsBytes bounds the list of refs; a hundred thousand refs have about 8 MiB.
	maxRefsBytes = 32 << 20
	// defaultUser is who asks where nobody is named. Hosting services that know a key or token do not look at it.
	defaultUser = "git"
)

func init() {
	// What the machine says about SSH hosts must not lead a fetch elsewhere.
	gitssh.DefaultSSHConfig = nil
}

// remote is a repository whose refs were read.
type remote struct {
	session  transport.UploadPackSession
	refs     *packp.AdvRefs
	maxBytes int64
}

func connect(ctx context.Context, req Request, scratch string) (*remote, error) {
	endpoint, err := transport.NewEndpoint(req.URL)
	if err != nil {
		return nil, fault(report.RepositoryNotFound, "spec.source.git.url is not an address of a repository")
	}
	var (
		client transport.Transport
		auth   transport.AuthMethod
	)
	switch endpoint.Protocol {
	case "http", "https":
		client, auth, err = overHTTP(req)
	case "ssh":
		client, auth, err = overSSH(endpoint, req.Credentials, scratch)
	default:
		err = fault(report.RepositoryNotFound, "spec.source.git.url must begin with https://, http:// or ssh://")
	}
	if err != nil {
		return nil, err
	}
	session, err := client.NewUploadPackSession(endpoint, auth)
	if err != nil {
		return nil, err
	}
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return &remote{session: session, refs: refs, maxBytes: req.MaxBytes}, nil
}

func overHTTP(req Request) (transport.Transport, transport.AuthMethod, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if len(req.Authorities) > 0 && !roots.AppendCertsFromPEM(req.Authorities) {
		return nil, nil, fault(report.SecretInvalid, "the certificate authorities (ca.crt) hold no certificate in PEM form")
	}
	var auth transport.AuthMethod
	credentials := req.Credentials
	withCredentials := credentials.Password != ""
	if withCredentials {
		auth = &githttp.BasicAuth{Username: cmp.Or(credentials.Username, defaultUser), Password: credentials.Password}
	}
	client := &http.Client{
		Transport: &boundedTransport{maxBytes: req.MaxBytes + maxRefsBytes, next: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSHandshakeTimeout:   dialTimeout,
			ResponseHeaderTimeout: headerTimeout,
			TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		}},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			// go-git takes the credentials away where a redirect leads to another server, which would then ask for some.
			if from := via[0].URL; withCredentials && (next.URL.Host != from.Host || next.URL.Scheme != from.Scheme) {
				return fault(report.Redirected, "the server sends us on to %s://%s, where the credentials are not sent; "+
					"set spec.source.git.url to the new address", next.URL.Scheme, next.URL.Host)
			}
			return nil
		},
	}
	return githttp.NewClient(client), auth, nil
}

// boundedTransport ends an answer that is too long.
type boundedTransport struct {
	next     http.RoundTripper
	maxBytes int64
}

func (b *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	limit := b.maxBytes
	if req.Method == http.MethodGet {
		limit = maxRefsBytes
	}
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedReader{ReadCloser: resp.Body, left: limit, limit: limit}
	return resp, nil
}

// boundedReader fails when there is more to read than allowed.
type boundedReader struct {
	io.ReadCloser
	left, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, fault(report.TooLarge,
			"the server sends more than %d bytes, the limit of the operator's git.maxBytes; use a smaller repository, "+
				"or upload the code", b.limit)
	}
	return n, err
}

func overSSH(
	endpoint *transport.Endpoint, credentials Credentials, scratch string,
) (transport.Transport, transport.AuthMethod, error) {
	if len(credentials.Identity) == 0 || len(credentials.KnownHosts) == 0 {
		return nil, nil, fault(report.SecretInvalid,
			"a repository by SSH needs a Secret with identity (the private key) and known_hosts; the server is not trusted without")
	}
	auth, err := gitssh.NewPublicKeys(cmp.Or(endpoint.User, defaultUser), credentials.Identity, credentials.Password)
	if err != nil {
		return nil, nil, fault(report.SecretInvalid,
			"identity is not a private key in PEM form, or password does not unlock it")
	}
	// The parser of known hosts takes files only.
	file := filepath.Join(scratch, "known_hosts")
	if err := os.WriteFile(file, credentials.KnownHosts, 0o600); err != nil {
		return nil, nil, fmt.Errorf("writing the known hosts: %w", err)
	}
	known, err := gitssh.NewKnownHostsDb(file)
	if err != nil {
		return nil, nil, fault(report.SecretInvalid, "known_hosts is not in the format of OpenSSH")
	}
	address := net.JoinHostPort(endpoint.Host, strconv.Itoa(cmp.Or(endpoint.Port, gitssh.DefaultPort)))
	auth.HostKeyCallback = known.HostKeyCallback()
	auth.HostKeyAlgorithms = known.HostKeyAlgorithms(address)
	return gitssh.DefaultClient, auth, nil
}

// download brings one object, with all that it needs but the commits before it, into the storage.
func (r *remote) download(ctx context.Context, wanted plumbing.Hash, storage *filesystem.Storage) error {
	req := packp.NewUploadPackRequestFromCapabilities(r.refs.Capabilities)
	req.Wants = []plumbing.Hash{wanted}
	if r.refs.Capabilities.Supports(capability.Shallow) {
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return fmt.Errorf("asking for one commit: %w", err)
		}
		req.Depth = packp.DepthCommits(1)
	}
	resp, err := r.session.UploadPack(ctx, req)
	if err != nil {
		return err
	}
	var pack io.Reader = resp
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		pack = sideband.NewDemuxer(sideband.Sideband64k, resp)
	case req.Capabilities.Supports(capability.Sideband):
		pack = sideband.NewDemuxer(sideband.Sideband, resp)
	}
	bounded := &boundedReader{ReadCloser: io.NopCloser(pack), left: r.maxBytes, limit: r.maxBytes}
	if err := packfile.UpdateObjectStorage(storage, bounded); err != nil {
		return errors.Join(err, resp.Close())
	}
	// The pack is whole and checked; how the server ends the connection does not matter.
	_ = resp.Close()
	return nil
}
