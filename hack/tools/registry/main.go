// SPDX-License-Identifier: Apache-2.0

// Command registry is the container registry of the demo: distribution with only the storage and the login that the demo
// uses, which keeps the program small and its build short.
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"

	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	if err := registry.RootCmd.Execute(); err != nil {
		os.Exit(1)
	}
}
