// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
)

const (
	outputText = "text"
	outputJSON = "json"
)

// result is what came out for one image.
type result struct {
	Name    string `json:"name"`
	Ref     string `json:"ref"`               // the name under which the cluster asks for it
	Archive string `json:"archive,omitempty"` // file to import into the node
	ID      string `json:"id,omitempty"`      // digest of the image's configuration
	Digest  string `json:"digest,omitempty"`  // digest of the manifest in the registry
	Bytes   int64  `json:"bytes"`             // compressed size
	Pushed  bool   `json:"pushed,omitempty"`  // false when the registry had it
}

// printResults writes the results for people ("text": name and reference, one image a line) or for programs ("json").
func printResults(w io.Writer, format string, results []result) error {
	switch format {
	case outputText:
		for _, r := range results {
			if _, err := fmt.Fprintf(w, "%s\t%s\n", r.Name, r.Ref); err != nil {
				return err
			}
		}
		return nil
	case outputJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string][]result{"images": results})
	default:
		return fmt.Errorf("output is %q, but can be %s or %s", format, outputText, outputJSON)
	}
}
