//go:build tools

// Package tools pins the S3 server of the demo.
package tools

import (
	_ "github.com/versity/versitygw/cmd/versitygw"
)
