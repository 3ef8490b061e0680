// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// makeSource gives count files that compress about as well as program text.
func makeSource(count, size int) map[string]string {
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 800)
	for i := range words {
		word := make([]byte, 3+random.IntN(8))
		for j := range word {
			word[j] = byte('a' + random.IntN(26))
		}
		words[i] = string(word)
	}
	files := make(map[string]string, count)
	for i := range count {
		var text strings.Builder
		for text.Len() < size {
			text.WriteString(words[random.IntN(len(words))])
			text.WriteByte(" \n(),.=:"[random.IntN(8)])
		}
		files[fmt.Sprintf("pkg%02d/mod%04d.py", i%50, i)] = text.String()[:size]
	}
	return files
}

func BenchmarkFromFiles(b *testing.B) {
	sources := map[string][2]int{ // files, bytes of each
		"inline/1x4KiB":    {1, 4 << 10},
		"inline/16x32KiB":  {16, 32 << 10},
		"large/2000x16KiB": {2000, 16 << 10},
	}
	for name, dims := range sources {
		files := makeSource(dims[0], dims[1])
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(dims[0] * dims[1]))
			b.ReportAllocs()
			packed := 0
			for b.Loop() {
				got, err := FromFiles(files, Options{Prefix: "app/"})
				if err != nil {
					b.Fatal(err)
				}
				packed = len(got.Data)
			}
			b.ReportMetric(float64(packed)/float64(dims[0]*dims[1]), "ratio")
		})
	}
}

func BenchmarkExtract(b *testing.B) {
	packed, err := FromFiles(makeSource(500, 16<<10), Options{Prefix: "app/"})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(500 * 16 << 10)
	dir := b.TempDir()
	for b.Loop() {
		if err := Extract(bytes.NewReader(packed.Data), dir, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
