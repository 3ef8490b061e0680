// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// noise is content that cannot be compressed.
func noise(size int) string {
	source := rand.NewChaCha8([32]byte{1})
	data := make([]byte, size)
	_, _ = source.Read(data) // never fails
	return string(data)
}

// TestArchivesStayWithinTheirBytes makes the largest archives that the limits allow: everybody reads them.
func TestArchivesStayWithinTheirBytes(t *testing.T) {
	t.Parallel()
	// Each path is as long as allowed, as deep as allowed and in folders of its own, and its names need a PAX header.
	longest := func(i int, limits Limits) string {
		first := fmt.Sprintf("%03dä", i)
		element := "/" + strings.Repeat("x", 24)
		path := first + strings.Repeat(element, limits.MaxDepth-2) + "/"
		return path + strings.Repeat("y", min(limits.MaxNameBytes, limits.MaxPathBytes-len(path)))
	}
	tests := map[string]struct {
		limits Limits
		files  func(limits Limits) map[string]string
	}{
		"one file of noise": {Limits{MaxTotalBytes: 3 << 20, MaxEntries: 1}, func(l Limits) map[string]string {
			return map[string]string{"a": noise(int(l.MaxTotalBytes))}
		}},
		"small files of noise": {Limits{MaxTotalBytes: 1 << 20, MaxEntries: 1000}, func(l Limits) map[string]string {
			files, content := map[string]string{}, noise(int(l.MaxTotalBytes))
			for i := range l.MaxEntries {
				files[fmt.Sprint(i)] = content[i*1000 : (i+1)*1000]
			}
			return files
		}},
		"long paths in deep folders": {Limits{MaxTotalBytes: 1 << 10, MaxEntries: 32 * 20}, func(l Limits) map[string]string {
			files := map[string]string{}
			for i := range l.MaxEntries / l.MaxDepth {
				files[longest(i, l)] = "x"
			}
			return files
		}},
		"nothing in it": {Limits{MaxTotalBytes: 1, MaxEntries: 1}, func(Limits) map[string]string {
			return map[string]string{"a": ""}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := tc.limits.withDefaults()
			for _, prefix := range []string{"", "app/", "a/b/c/d/"} {
				packed, err := FromFiles(tc.files(limits), Options{Prefix: prefix, Limits: limits})
				if err != nil {
					t.Fatal(err)
				}
				unpacked, err := gzip.NewReader(bytes.NewReader(packed.Data))
				if err != nil {
					t.Fatal(err)
				}
				tarBytes, err := io.Copy(io.Discard, unpacked)
				if err != nil {
					t.Fatal(err)
				}
				if tarBytes > limits.TarBytes() || int64(len(packed.Data)) > limits.ArchiveBytes() {
					t.Errorf("prefix %q: tar of %d bytes, at most %d expected; archive of %d, at most %d expected",
						prefix, tarBytes, limits.TarBytes(), len(packed.Data), limits.ArchiveBytes())
				}
				if err := Extract(bytes.NewReader(packed.Data), t.TempDir(), limits); err != nil {
					t.Errorf("prefix %q: %v", prefix, err)
				}
			}
		})
	}
}

// TestArchiveIsLargerThanItsFiles has the case for which the total of the files is too small a limit.
func TestArchiveIsLargerThanItsFiles(t *testing.T) {
	t.Parallel()
	limits := Limits{MaxTotalBytes: 1 << 20}
	packed, err := FromFiles(map[string]string{"a": noise(1 << 20)}, Options{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	if size := int64(len(packed.Data)); size <= limits.MaxTotalBytes || size > limits.ArchiveBytes() {
		t.Errorf("the archive has %d bytes", size)
	}
	if DefaultLimits.ArchiveBytes() <= DefaultLimits.TarBytes() || DefaultLimits.TarBytes() <= DefaultLimits.MaxTotalBytes {
		t.Error("the limits are not in order")
	}
}
