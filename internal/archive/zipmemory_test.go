// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/zip"
	"compress/flate"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
)

// writeLargeZip makes a zip file of count files of size bytes, each the beginning of text from a place of its own.
func writeLargeZip(t testing.TB, count, size, level int, text string) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "large.zip"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	w := zip.NewWriter(file)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, level)
	})
	for i := range count {
		content, err := w.Create(fmt.Sprintf("package%03d/%smodule%05d.py", i%100, strings.Repeat("nested/", i%4), i))
		if err != nil {
			t.Fatal(err)
		}
		at := (i * 7919) % (len(text) - size)
		if _, err := io.WriteString(content, text[at:at+size]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// sourceText gives text of lines that come again. Files of it are packed to a fifth, so that a zip of them can be at
// all limits.
func sourceText(size int) string {
	random := rand.New(rand.NewPCG(9, 10))
	lines := strings.SplitAfter(makeSource(1, 7_000)["pkg00/mod0000.py"], "\n")
	var text strings.Builder
	for text.Len() < size {
		text.WriteString(lines[random.IntN(len(lines))])
	}
	return text.String()[:size]
}

func sizeOf(t testing.TB, file *os.File) int64 {
	t.Helper()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// heapWatcher throws away what it gets and remembers the largest heap, garbage included.
type heapWatcher struct {
	written, next int
	most          uint64
}

func (w *heapWatcher) Write(p []byte) (int, error) {
	if w.written += len(p); w.written >= w.next {
		w.next = w.written + 256<<10
		w.most = max(w.most, heapBytes())
	}
	return len(p), nil
}

func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// A zip that is at all limits at once: nothing of its contents is held.
func TestFromZipNeedsConstantMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("packs 250 MiB")
	}
	const files, most = 9500, 24 << 20
	size := int(DefaultLimits.MaxTotalBytes / files)
	file := writeLargeZip(t, files, size, 6, sourceText(4<<20))
	runtime.GC()
	before, watcher := heapBytes(), &heapWatcher{}
	sum, err := FromZip(file, sizeOf(t, file), watcher, Options{Prefix: "app/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("zip of %d bytes, %d bytes in %d entries: the heap grew by %d KiB", sizeOf(t, file), sum.UnpackedBytes,
		sum.Entries, (watcher.most-before)>>10)
	if watcher.most > before+most {
		t.Errorf("the heap grew by %d bytes, want at most %d", watcher.most-before, most)
	}
}
