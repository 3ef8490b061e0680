// SPDX-License-Identifier: Apache-2.0

// Package image makes and looks up container images in a registry, without a daemon and without unpacking anything.
//
// The image of a function is the image of its runtime, or of its dependencies, with the canonical archive of its source
// as one more layer. Making it moves the archive and two small documents; the layers of the base are mounted from its
// repository when that is in the same registry. The same input gives the same image digest.
//
// References are as usual: "host:port/repo:tag" or "host:port/repo@sha256:...". Digests are "sha256:" and 64 hex
// digits.
package image

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/naeel/sless/internal/servers"
)

const userAgent = "sless"

// maxDocument bounds the documents of an image (manifest, configuration) that are read into memory. Registries refuse
// manifests over 4 MiB. A dependency image is made where code of the user runs, so its documents are not trusted.
const maxDocument = 4 << 20

// Config says how registries are reached.
type Config struct {
	// Insecure are the registries ("host" or "host:port") that are spoken to in plain HTTP. All others get TLS, also
	// those with a local name or a private address. A host that a plain registry redirects downloads to must be listed
	// as well, if it is plain.
	Insecure []string
	// CAFile is a file with PEM certificates that are trusted besides those of the system.
	CAFile string
	// Keychain gives the credentials for a registry. Nil means the docker configuration of the user: DOCKER_CONFIG
	// or the home directory. See KeychainFromFile and KeychainFromJSON.
	Keychain authn.Keychain
	// Architecture picks the image of a multi-arch index, linux always. Empty means that of this program.
	Architecture string
	// Backoff is how one request that failed for a reason that may pass is tried again. The zero value means three
	// tries with pauses of 0.2 and 0.6 seconds.
	Backoff remote.Backoff
	// AnswerTimeout is how long a registry may take to begin an answer, and to take or give the next bytes of a layer. The
	// default is two minutes.
	AnswerTimeout time.Duration
}

// Registry works with all registries that its configuration lets it reach. It is safe for concurrent use.
type Registry struct {
	insecure  map[string]bool
	transport http.RoundTripper
	keychain  authn.Keychain
	platform  v1.Platform
	backoff   remote.Backoff
}

// New gives a Registry. It reads the CA file and does not connect.
func New(cfg Config) (*Registry, error) {
	r := &Registry{
		insecure: make(map[string]bool, len(cfg.Insecure)),
		keychain: cfg.Keychain,
		platform: v1.Platform{OS: "linux", Architecture: cfg.Architecture},
		backoff:  cfg.Backoff,
	}
	for _, host := range cfg.Insecure {
		if host == "" || strings.Contains(host, "/") {
			return nil, fmt.Errorf("insecure registry %q is not of the form host or host:port", host)
		}
		r.insecure[host] = true
	}
	if r.keychain == nil {
		r.keychain = authn.DefaultKeychain
	}
	if r.platform.Architecture == "" {
		r.platform.Architecture = runtime.GOARCH
	}
	if r.backoff.Steps == 0 {
		r.backoff = remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Jitter: 0.1, Steps: 3}
	}
	transport, err := servers.NewTransport(cfg.CAFile, cmp.Or(cfg.AnswerTimeout, defaultAnswerTimeout))
	if err != nil {
		return nil, err
	}
	r.transport = &schemeTransport{next: transport, insecure: r.insecure}
	return r, nil
}

func (r *Registry) options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx),
		remote.WithTransport(r.transport),
		remote.WithAuthFromKeychain(r.keychain),
		remote.WithPlatform(r.platform),
		remote.WithUserAgent(userAgent),
		remote.WithRetryBackoff(r.backoff),
	}
}

func (r *Registry) parse(ref string) (name.Reference, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("image reference %q: %w", ref, err)
	}
	if r.insecure[parsed.Context().RegistryStr()] {
		return name.ParseReference(ref, name.Insecure)
	}
	return parsed, nil
}

// parseTag parses a reference that has to name its tag: nothing is ever pushed to a tag that was not asked for.
func (r *Registry) parseTag(ref string) (name.Tag, error) {
	parsed, err := r.parse(ref)
	if err != nil {
		return name.Tag{}, err
	}
	tag, ok := parsed.(name.Tag)
	if !ok || !strings.HasSuffix(ref, ":"+tag.TagStr()) {
		return name.Tag{}, fmt.Errorf("image reference %q has no tag", ref)
	}
	return tag, nil
}

func (r *Registry) parseDigest(ref string) (name.Digest, error) {
	parsed, err := r.parse(ref)
	if err != nil {
		return name.Digest{}, err
	}
	digest, ok := parsed.(name.Digest)
	if !ok {
		return name.Digest{}, fmt.Errorf("image reference %q has no digest", ref)
	}
	return digest, nil
}
