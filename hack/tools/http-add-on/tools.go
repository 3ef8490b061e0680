//go:build tools

// Package tools pins KEDA's http-add-on.
package tools

import (
	_ "github.com/kedacore/http-add-on/interceptor"
	_ "github.com/kedacore/http-add-on/scaler"
)
