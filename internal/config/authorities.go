// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// Names under which Authorities gives the certificate authorities.
const (
	RegistryAuthority    = "registry.crt"
	ObjectStoreAuthority = "store.crt"
)

// AuthorityNames lists what Authorities returns, without reading it.
func (c *Config) AuthorityNames() []string {
	var names []string
	if c.Registry.CAFile != "" {
		names = append(names, RegistryAuthority)
	}
	if c.ObjectStore.CAFile != "" {
		names = append(names, ObjectStoreAuthority)
	}
	return names
}

// Authorities reads the certificate authorities of the registry and of the object store. Each call reads the files again,
// so that a mounted ConfigMap that changes takes effect.
func (c *Config) Authorities() (map[string]string, error) {
	files := map[string]string{RegistryAuthority: c.Registry.CAFile, ObjectStoreAuthority: c.ObjectStore.CAFile}
	authorities := map[string]string{}
	for _, name := range c.AuthorityNames() {
		data, err := readBounded(files[name])
		if err != nil {
			return nil, fmt.Errorf("reading the certificate authorities: %w", err)
		}
		authorities[name] = string(data)
	}
	return authorities, nil
}
