// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestMetricOf(t *testing.T) {
	t.Parallel()
	page := "# HELP memory_bytes What it takes.\n# TYPE memory_bytes gauge\nmemory_bytes_max 7\nmemory_bytes 4.2e+07\n" +
		"broken x\n"
	tests := map[string]struct {
		name    string
		want    float64
		wantErr string
	}{
		"there":                    {name: "memory_bytes", want: 42e6},
		"name that begins like it": {name: "memory_bytes_max", want: 7},
		"not there":                {name: "memory", wantErr: "no metric memory"},
		"no number":                {name: "broken", wantErr: "parsing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := metricOf([]byte(page), tc.name)
			if got != tc.want || (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got %v, %v, want %v, %q", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestZipOfRandomBytesStaysLarge(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	code, err := zipOf(map[string]io.Reader{"data.bin": io.LimitReader(randomBytes(1, 2), size)})
	if err != nil || len(code) < size {
		t.Fatalf("%d bytes, %v, want at least %d", len(code), err, size)
	}
	other, err := zipOf(map[string]io.Reader{"data.bin": io.LimitReader(randomBytes(1, 3), size)})
	if err != nil || bytes.Equal(code, other) {
		t.Errorf("another run has the same bytes, %v", err)
	}
	r, err := zip.NewReader(bytes.NewReader(code), int64(len(code)))
	if err != nil || len(r.File) != 1 || r.File[0].UncompressedSize64 != size {
		t.Errorf("the zip holds %+v, %v", r, err)
	}
}
