// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fromZip gives the archive of a zip in memory, and proves that what the summary says of it is true.
func fromZip(t *testing.T, data []byte, opt Options) (Summary, []byte, error) {
	t.Helper()
	var buf bytes.Buffer
	sum, err := FromZip(bytes.NewReader(data), int64(len(data)), &buf, opt)
	if err != nil {
		if sum != (Summary{}) {
			t.Errorf("a summary was given with the error %v", err)
		}
		return sum, nil, err
	}
	checkSummary(t, sum, buf.Bytes(), opt)
	return sum, buf.Bytes(), nil
}

func checkSummary(t *testing.T, sum Summary, data []byte, opt Options) {
	t.Helper()
	verified, err := Verify(io.NopCloser(bytes.NewReader(data)), sum.Digest, sum.Size)
	if err != nil {
		t.Fatal(err)
	}
	diffID, err := diffIDOf(verified, opt.Limits)
	if err != nil || diffID != sum.DiffID {
		t.Errorf("diff ID is %s (%v), want %s", diffID, err, sum.DiffID)
	}
	want := Summary{Digest: sum.Digest, DiffID: sum.DiffID, Size: sum.Size, Entries: -strings.Count(opt.Prefix, "/")}
	for _, header := range readTar(t, data) {
		want.Entries++
		want.UnpackedBytes += header.Size
	}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Error(diff)
	}
}

func TestFromZipTricky(t *testing.T) {
	t.Parallel()
	for name, tc := range trickyZips() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := fromZip(t, tc.zip.build(), Options{Prefix: "app/"})
			if tc.wantProblem == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("got error %v, want *Error", err)
			}
			if diff := cmp.Diff(&Error{Path: tc.wantPath, Problem: tc.wantProblem}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFromZipTakes(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"good modes":     {"755 d/", "644 d/f", "644 no type", "755 run", "644 win"},
		"good with junk": {"755 d/", "644 d/a"},
		"good beside junk": {
			"644 ._a", "755 .git/", "644 .git/config", "644 __MACOSX", "755 d/", "755 d/__MACOSX/", "644 d/__MACOSX/a",
			"644 d/x.DS_Store",
		},
		"good one folder": {"755 project/", "644 project/handler.py"},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, data, err := fromZip(t, trickyZips()[name].zip.build(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, header := range readTar(t, data) {
				got = append(got, fmt.Sprintf("%o %s", header.Mode, header.Name))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFromZipLimits(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		zip         rawZip
		limits      Limits
		wantProblem string
	}{
		"total":   {plain("a", "b"), Limits{MaxTotalBytes: 23}, "has more than 23 bytes"},
		"entries": {plain("d/a", "b"), Limits{MaxEntries: 2}, "has more than 2 files and folders"},
		"folders": {plain("a/", "b/", "c"), Limits{MaxEntries: 2}, "has more than 2 files and folders"},
		"records": {
			plain(".DS_Store", "a/.DS_Store", "b"), Limits{MaxEntries: 1}, "has more than 2 entries in its zip directory",
		},
		"zip":         {plain("a"), Limits{MaxZipBytes: 20}, "has more than 20 bytes as a zip archive"},
		"ratio":       {bombZips()["bomb"].zip, Limits{MaxZipRatio: 100}, "unpacks to more than 100 times its packed size"},
		"ratio, set":  {bombZips()["bomb"].zip, Limits{MaxZipRatio: 1100}, ""},
		"at total":    {plain("a", "b"), Limits{MaxTotalBytes: 24}, ""},
		"at entries":  {plain("d/a", "b"), Limits{MaxEntries: 3}, ""},
		"at the zip":  {plain("a"), Limits{MaxZipBytes: int64(len(plain("a").build()))}, ""},
		"at depth":    {plain(strings.Repeat("d/", 31) + "x"), Limits{}, ""},
		"at the name": {plain(strings.Repeat("n", 255)), Limits{}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := fromZip(t, tc.zip.build(), Options{Prefix: "app/", Limits: tc.limits})
			var got *Error
			if errors.As(err, &got); (err != nil) != (tc.wantProblem != "") || got != nil && got.Problem != tc.wantProblem {
				t.Errorf("got error %v, want %q", err, tc.wantProblem)
			}
		})
	}
}

// writeZip makes a zip with the standard library: in random order, with random times, methods, levels and folders.
func writeZip(t *testing.T, files map[string]string, random *rand.Rand) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, random.IntN(12)-2)
	})
	names := map[string]bool{}
	for name := range files {
		names[name] = true
		if dir := path.Dir(name); dir != "." && random.IntN(2) == 0 {
			names[dir+"/"] = true
		}
	}
	order := slices.Collect(func(yield func(string) bool) {
		for name := range names { // in random order
			if !yield(name) {
				return
			}
		}
	})
	for _, name := range order {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate * uint16(random.IntN(2)), Comment: "comment"}
		header.Modified = time.Unix(random.Int64N(1<<31), 0)
		switch random.IntN(3) {
		case 0:
			header.SetMode(fs.FileMode([]uint16{0o600, 0o644, 0o666}[random.IntN(3)]))
		case 1:
			header.CreatorVersion, header.ExternalAttrs = 10<<8, 0x20
		}
		content, err := w.CreateHeader(header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(content, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestFromZipEqualsFromFiles(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 60 {
		files := sampleFiles
		if round > 10 {
			files = randomFiles(random)
		}
		prefix := []string{"", "app/"}[round%2]
		want, err := FromFiles(files, Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		sum, data, err := fromZip(t, writeZip(t, files, random), Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		got := &Archive{Digest: sum.Digest, DiffID: sum.DiffID, Data: data}
		if !cmp.Equal(want, got) {
			t.Fatalf("round %d: the zip gives %s, the files give %s", round, got.Digest, want.Digest)
		}
	}
}

// randomFiles gives files in nested folders, some of them empty and some larger than the buffers.
func randomFiles(random *rand.Rand) map[string]string {
	files := map[string]string{}
	for i := range 1 + random.IntN(40) {
		name := fmt.Sprintf("f%d.é", i)
		for range random.IntN(4) {
			name = string(rune('a'+random.IntN(3))) + "-/"[random.IntN(2):] + name
		}
		var line [80]byte
		for j := range line {
			line[j] = "abcdefgh\n"[random.IntN(9)]
		}
		files[name] = strings.Repeat(string(line[:random.IntN(80)]), random.IntN(4)*random.IntN(500))
	}
	return files
}

func TestFromZipFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	files := map[string]string{"a.py": strings.Repeat("a", 200_000), "b.py": "b"}
	data := writeZip(t, files, rand.New(rand.NewPCG(5, 6)))
	// Whichever read fails, it is never said to be the fault of the zip.
	for fail := range 50 {
		r := &failingReaderAt{r: bytes.NewReader(data), left: fail, err: broken}
		_, err := FromZip(r, int64(len(data)), io.Discard, Options{})
		if err == nil && r.left >= 0 {
			break
		}
		var refused *Error
		if !errors.Is(err, broken) || errors.As(err, &refused) {
			t.Errorf("read %d failed and the error was %v", fail, err)
		}
	}
	for missing := range len(data) {
		_, err := FromZip(bytes.NewReader(data[:missing]), int64(len(data)), io.Discard, Options{})
		var refused *Error
		if !errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &refused) {
			t.Fatalf("without the end from %d on, the error was %v", missing, err)
		}
	}
	_, err := FromZip(bytes.NewReader(data), int64(len(data)), failingWriter{broken}, Options{})
	if !errors.Is(err, broken) {
		t.Errorf("got error %v from a writer that fails", err)
	}
	if _, err := FromZip(bytes.NewReader(data), int64(len(data)), io.Discard, Options{Prefix: "../"}); err == nil {
		t.Error("a wrong prefix was taken")
	}
}

type failingReaderAt struct {
	r    io.ReaderAt
	left int
	err  error
}

func (f *failingReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.err
	}
	return f.r.ReadAt(p, offset)
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }
