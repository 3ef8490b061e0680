// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/objectstore"
)

const (
	// maxConfigBytes bounds the configuration file, as in package config.
	maxConfigBytes = 1 << 20
	// defaultBucket is that of package config.
	defaultBucket = "sless"
)

// loadObjectStore reads where the object store is from the configuration file of sless, and its credentials from the
// environment, and at what age stored code has to be stored again to be safe from the manager's cleaning. The rest of the
// file is the manager's business, also whether it is right.
func loadObjectStore(path string, getenv func(string) string) (store objectstore.Config, refreshAfter time.Duration, err error) {
	var file struct {
		ObjectStore config.ObjectStore `json:"objectStore"`
		Cleanup     config.Cleanup     `json:"cleanup"`
	}
	if path != "" {
		data, err := readConfig(path)
		if err != nil {
			return store, 0, fmt.Errorf("reading the configuration: %w", err)
		}
		if err := yaml.Unmarshal(data, &file); err != nil {
			return store, 0, fmt.Errorf("reading the configuration %s: %w", path, err)
		}
	}
	s := file.ObjectStore
	file.Cleanup.SetDefaults()
	return objectstore.Config{
		Endpoint: s.Endpoint, Region: s.Region, Bucket: cmp.Or(s.Bucket, defaultBucket),
		PathStyle: s.PathStyle, Insecure: s.Insecure, CAFile: s.CAFile,
		AccessKey: getenv("AWS_ACCESS_KEY_ID"), SecretKey: getenv("AWS_SECRET_ACCESS_KEY"),
	}, file.Cleanup.RefreshAfter(), nil
}

func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err == nil && len(data) > maxConfigBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxConfigBytes)
	}
	return data, err
}
