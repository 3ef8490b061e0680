// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"io"
	"math/rand/v2"
	"testing"
)

// The sources unpack to about 50 MiB; MB/s are of the unpacked bytes.
func BenchmarkFromZip(b *testing.B) {
	noise := make([]byte, 4<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(noise) // never fails
	sources := map[string]struct {
		count, size int
		text        string
	}{
		"incompressible/49x1MiB": {49, 1 << 20, string(noise)},
		"source-like/3200x16KiB": {3200, 16 << 10, sourceText(4 << 20)},
		"many words/3200x16KiB":  {3200, 16 << 10, makeSource(1, 4<<20)["pkg00/mod0000.py"]},
		"small files/9500x200B":  {9500, 200, sourceText(4 << 20)},
	}
	for name, source := range sources {
		b.Run(name, func(b *testing.B) {
			file := writeLargeZip(b, source.count, source.size, 6, source.text)
			size := sizeOf(b, file)
			b.SetBytes(int64(source.count * source.size))
			b.ReportAllocs()
			for b.Loop() {
				sum, err := FromZip(file, size, io.Discard, Options{Prefix: "app/"})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(sum.Size)/float64(sum.UnpackedBytes), "ratio")
			}
		})
	}
}
