// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	if err := decodeConfig(path, &file); err != nil {
		return store, 0, err
	}
	s := file.ObjectStore
	file.Cleanup.SetDefaults()
	return objectstore.Config{
		Endpoint: s.Endpoint, Region: s.Region, Bucket: cmp.Or(s.Bucket, defaultBucket),
		PathStyle: s.PathStyle, Insecure: s.Insecure, CAFile: s.CAFile,
		AccessKey: getenv("AWS_ACCESS_KEY_ID"), SecretKey: getenv("AWS_SECRET_ACCESS_KEY"),
	}, file.Cleanup.RefreshAfter(), nil
}

// loadScaling reads where the autoscaler is, and how long a call waits for the first replica of a function, of which the
// manager tells the interceptor. Without a file it is the default.
func loadScaling(path string) (config.Scaling, error) {
	var file struct {
		Scaling config.Scaling `json:"scaling"`
	}
	if err := decodeConfig(path, &file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return config.Scaling{}, err
	}
	file.Scaling.SetDefaults()
	return file.Scaling, nil
}

// decodeConfig reads those parts of the configuration file that into has. An empty path is an empty file.
func decodeConfig(path string, into any) error {
	if path == "" {
		return nil
	}
	data, err := readConfig(path)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	return nil
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
