// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
)

// Shared are the parts of the configuration that the gateway needs too. None of them is overridden by the environment.
type Shared struct {
	ObjectStore ObjectStore
	Cleanup     Cleanup
	Scaling     Scaling
}

// LoadShared reads the same file as Load for a program that is not the manager: with the same defaults, and an unknown field
// is an error here as well. Only these parts are checked, since what the manager needs besides may be in its environment
// alone. An empty ObjectStore.Endpoint is no error.
func LoadShared(path string) (*Shared, error) {
	cfg, err := read(path)
	if err != nil {
		return nil, err
	}
	cfg.setDefaults()
	if err := errors.Join(append(cfg.Cleanup.validate(), cfg.Scaling.validate())...); err != nil {
		return nil, fmt.Errorf("checking the configuration: %w", err)
	}
	return &Shared{ObjectStore: cfg.ObjectStore, Cleanup: cfg.Cleanup, Scaling: cfg.Scaling}, nil
}
