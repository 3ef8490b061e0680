// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"github.com/spf13/pflag"

	"github.com/naeel/sless/internal/image"
)

// registryOptions say how a step reaches registries.
type registryOptions struct {
	insecure       []string
	caFile, config string
}

func (o *registryOptions) bind(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.insecure, "insecure-registry", nil, "host:port that is spoken to in plain HTTP; repeatable")
	flags.StringVar(&o.caFile, "registry-ca-file", "", "file with certificates that are trusted besides the system's")
	flags.StringVar(&o.config, "registry-config", "",
		"docker config.json with the credentials (default: in the folder DOCKER_CONFIG, or in the home directory)")
}

func (o *registryOptions) open() (*image.Registry, error) {
	cfg := image.Config{Insecure: o.insecure, CAFile: o.caFile}
	if o.config != "" {
		cfg.Keychain = image.KeychainFromFile(o.config)
	}
	return image.New(cfg)
}
