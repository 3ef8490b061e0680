// SPDX-License-Identifier: Apache-2.0

package api

import (
	_ "embed" // the document
	"net/http"
)

//go:embed openapi.json
var openAPI []byte

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	writeRaw(w, http.StatusOK, openAPI)
	return nil
}
