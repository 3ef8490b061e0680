//go:build tools

// Package tools pins the image builder.
package tools

import (
	_ "github.com/GoogleContainerTools/kaniko/cmd/executor"
)
