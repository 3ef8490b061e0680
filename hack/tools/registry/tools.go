//go:build tools

// Package tools pins the container registry of the demo and its command line client.
package tools

import (
	_ "github.com/distribution/distribution/v3/cmd/registry"
	_ "github.com/google/go-containerregistry/cmd/crane"
)
