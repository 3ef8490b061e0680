// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"time"

	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/objectstore"
)

// loadObjectStore reads where the object store is from the configuration file of sless, and its credentials from the
// environment, and at what age stored code has to be stored again to be safe from the manager's cleaning.
func loadObjectStore(path string, getenv func(string) string) (store objectstore.Config, refreshAfter time.Duration, err error) {
	shared, err := config.LoadShared(path)
	if err != nil {
		return store, 0, err
	}
	s := shared.ObjectStore
	return objectstore.Config{
		Endpoint: s.Endpoint, Region: s.Region, Bucket: s.Bucket,
		PathStyle: s.PathStyle, Insecure: s.Insecure, CAFile: s.CAFile,
		AccessKey: getenv("AWS_ACCESS_KEY_ID"), SecretKey: getenv("AWS_SECRET_ACCESS_KEY"),
	}, shared.Cleanup.RefreshAfter(), nil
}

// loadScaling reads where the autoscaler is, and how long a call waits for the first replica of a function, of which the
// manager tells the interceptor. Without a file it is the default: calls need none.
func loadScaling(path string) (config.Scaling, error) {
	shared, err := config.LoadShared(path)
	if errors.Is(err, fs.ErrNotExist) {
		shared, err = config.LoadShared("")
	}
	if err != nil {
		return config.Scaling{}, err
	}
	return shared.Scaling, nil
}
