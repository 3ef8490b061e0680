// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// maxKeychain bounds a docker configuration. A Secret holds at most 1 MiB.
const maxKeychain = 1 << 20

// KeychainFromFile gives the credentials of a docker config.json. The file is read whenever credentials are needed, so
// that a mounted Secret that changes takes effect. Credential helpers that it names are not run.
func KeychainFromFile(path string) authn.Keychain {
	return fileKeychain(path)
}

// KeychainFromJSON gives the credentials of a docker config.json in memory, as in a Secret of type
// kubernetes.io/dockerconfigjson.
func KeychainFromJSON(data []byte) (authn.Keychain, error) {
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		// The error of the decoder may quote the document.
		return nil, errors.New("registry credentials are no docker config.json")
	}
	keychain := make(mapKeychain, len(config.Auths))
	for key, auth := range config.Auths {
		keychain[normaliseKey(key)] = auth
	}
	return keychain, nil
}

type fileKeychain string

func (k fileKeychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	file, err := os.Open(string(k))
	if err != nil {
		return nil, fmt.Errorf("registry credentials: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxKeychain))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("registry credentials: %w", err)
	}
	keychain, err := KeychainFromJSON(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", string(k), err)
	}
	return keychain.Resolve(target)
}

// mapKeychain holds credentials by registry or by the first part of a repository name, "host:port/team".
type mapKeychain map[string]authn.AuthConfig

// Resolve gives the credentials with the longest key that fits.
func (k mapKeychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	for key := normaliseKey(target.String()); ; {
		if auth, found := k[key]; found {
			return authn.FromConfig(auth), nil
		}
		i := strings.LastIndexByte(key, '/')
		if i < 0 {
			return authn.Anonymous, nil
		}
		key = key[:i]
	}
}

// normaliseKey takes off what docker puts around the name of a registry: "https://index.docker.io/v1/".
func normaliseKey(key string) string {
	if _, host, found := strings.Cut(key, "://"); found {
		key = host
	}
	key = strings.TrimSuffix(key, "/")
	key = strings.TrimSuffix(strings.TrimSuffix(key, "/v1"), "/v2")
	host, rest, nested := strings.Cut(key, "/")
	if host == "docker.io" || host == "registry-1.docker.io" {
		host = name.DefaultRegistry
	}
	if nested {
		return host + "/" + rest
	}
	return host
}
