// SPDX-License-Identifier: Apache-2.0

//go:build unix

package archive

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

var updateCorpus = flag.Bool("update", false, "write the corpus of FuzzFromZip anew")

const zipCorpus = "testdata/fuzz/FuzzFromZip"

// The corpus is what trickyZips makes: one file for each, named after it. Found inputs are kept beside them under the
// names that the fuzzer gives.
func TestZipCorpus(t *testing.T) {
	t.Parallel()
	for name, tc := range trickyZips() {
		file := filepath.Join(zipCorpus, corpusName(name))
		want := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", tc.zip.build())
		if *updateCorpus {
			if err := errors.Join(os.MkdirAll(zipCorpus, 0o755), os.WriteFile(file, []byte(want), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != want {
			t.Errorf("%s is not what the test makes (%v); run the test with -update", file, err)
		}
	}
}

// corpusName makes a file name of a name; the sum keeps those apart that differ in signs only.
func corpusName(name string) string {
	sum := 0
	for _, b := range []byte(name) {
		sum = (sum*31 + int(b)) % 9973
	}
	plainName := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, name)
	return fmt.Sprintf("%.40s-%04d", strings.Trim(plainName, "-"), sum)
}

// Whatever the bytes are, see checkZip.
func FuzzFromZip(f *testing.F) {
	f.Fuzz(checkZip)
}

// Zips whose frame is right, so that what is behind it is reached.
func FuzzFromZipEntries(f *testing.F) {
	f.Add("a.py", "d/b.py", "content", byte(8), uint16(0), uint16(3), uint32(0o100755<<16), int8(0), int8(0), "")
	f.Add("a/", "a", "", byte(0), uint16(8), uint16(0), uint32(0x10), int8(0), int8(1), "extra")
	f.Add("../a", "A", "content", byte(8), uint16(0x800), uint16(19), uint32(0o120777<<16), int8(-1), int8(-1), "")
	f.Add("d\u00e9/x", "de\u0301/y", "", byte(9), uint16(1), uint16(10), uint32(0), int8(1), int8(0), "\x01\x00\x00\x00")
	f.Fuzz(func(t *testing.T, first, second, content string, method byte, flags, system uint16, attributes uint32,
		sizeOff, packedOff int8, extra string,
	) {
		data := content
		if method == 8 {
			data = deflate(content)
		}
		e := rawEntry{
			name: first, content: content, method: uint16(method), flags: flags, system: system, extra: extra,
			mode: attributes >> 16, dos: attributes & 0xffff,
			unpacked: new(uint32(len(content) + int(sizeOff))), packed: new(uint32(len(data) + int(packedOff))),
		}
		if max(len(first), len(second), len(extra)) > 1<<16-1 {
			return
		}
		checkZip(t, rawZip{entries: []rawEntry{e, {name: second, content: content}}}.build())
	})
}

// checkZip proves that a zip is refused with an *Error or gives an archive that Extract takes within the same limits,
// in bounded memory; and that the folder that comes out of it gives the same archive again.
func checkZip(t *testing.T, data []byte) {
	limits := Limits{MaxTotalBytes: 4 << 20, MaxEntries: 100}
	var before, after runtime.MemStats
	var buf bytes.Buffer
	runtime.ReadMemStats(&before)
	sum, err := FromZip(bytes.NewReader(data), int64(len(data)), &buf, Options{Limits: limits})
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(16<<20+4*len(data)+4*buf.Cap()); got > most {
		t.Fatalf("%d bytes were allocated, want at most %d", got, most)
	}
	if err != nil {
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Fatalf("got error %v, want *Error", err)
		}
		if message := err.Error(); !utf8.ValidString(message) || strings.ContainsAny(message, "\n\x00\x1b") {
			t.Fatalf("message %q is not fit to be shown", message)
		}
		return
	}
	checkSummary(t, sum, buf.Bytes(), Options{Limits: limits})
	if sum.UnpackedBytes > limits.MaxTotalBytes || sum.Entries > limits.MaxEntries {
		t.Fatalf("%+v is over the limits", sum)
	}
	dir := t.TempDir()
	if err := Extract(bytes.NewReader(buf.Bytes()), dir, limits); err != nil {
		t.Fatal(err)
	}
	checkAgain(t, dir, sum, limits)
}

// checkAgain makes an archive of what was extracted, unless it has folders that FromDir leaves out.
func checkAgain(t *testing.T, dir string, want Summary, limits Limits) {
	t.Helper()
	_, modes := readTree(t, dir)
	for name := range modes {
		for element := range strings.SplitSeq(name, "/") {
			if strings.EqualFold(element, ".git") {
				return
			}
		}
	}
	var again bytes.Buffer
	if got, err := FromDir(openRoot(t, dir), &again, Options{Limits: limits}); err != nil || got != want {
		t.Fatalf("the extracted files give %+v (%v), the zip gave %+v", got, err, want)
	}
}
