// SPDX-License-Identifier: Apache-2.0

package archive

import "cmp"

// Limits bound a source. The zero value of a field stands for its value in DefaultLimits.
type Limits struct {
	// MaxTotalBytes is the most that all file contents together may have.
	MaxTotalBytes int64
	// MaxEntries is the most files and folders, counted together, the folders of Options.Prefix left out.
	MaxEntries int
	// MaxDepth is the most elements that a path may have: 2 for "src/app.py".
	MaxDepth int
	// MaxPathBytes is the most bytes that a path may have.
	MaxPathBytes int
	// MaxNameBytes is the most bytes that one element of a path may have. Linux file systems allow 255.
	MaxNameBytes int
	// MaxZipBytes is the most bytes that a zip may have as it comes in.
	MaxZipBytes int64
	// MaxZipRatio is how many times larger than its packed form a file of a zip may be, and all files together.
	// Whatever unpacks to 1 MiB or less is not measured. Program text is at 3 to 10, long logs are at 20 to 50, the
	// most that the format can do is 1032.
	MaxZipRatio int64
}

var (
	// DefaultLimits are those of an uploaded source: 50 MiB as a zip, 250 MiB unpacked, 10,000 entries, depth 32.
	DefaultLimits = Limits{
		MaxTotalBytes: 250 << 20,
		MaxEntries:    10_000,
		MaxDepth:      32,
		MaxPathBytes:  1024,
		MaxNameBytes:  255,
		MaxZipBytes:   50 << 20,
		MaxZipRatio:   200,
	}
	// DefaultInlineLimits are those of a source inside an object of the Kubernetes API: 512 KiB, for the rest as
	// DefaultLimits.
	DefaultInlineLimits = Limits{
		MaxTotalBytes: 512 << 10,
		MaxEntries:    10_000,
		MaxDepth:      32,
		MaxPathBytes:  1024,
		MaxNameBytes:  255,
		MaxZipBytes:   50 << 20,
		MaxZipRatio:   200,
	}
)

// maxPrefixDepth is the most elements of Options.Prefix. Extract, which does not know the prefix, allows as many more.
const maxPrefixDepth = 4

func (l Limits) withDefaults() Limits {
	return Limits{
		MaxTotalBytes: cmp.Or(l.MaxTotalBytes, DefaultLimits.MaxTotalBytes),
		MaxEntries:    cmp.Or(l.MaxEntries, DefaultLimits.MaxEntries),
		MaxDepth:      cmp.Or(l.MaxDepth, DefaultLimits.MaxDepth),
		MaxPathBytes:  cmp.Or(l.MaxPathBytes, DefaultLimits.MaxPathBytes),
		MaxNameBytes:  cmp.Or(l.MaxNameBytes, DefaultLimits.MaxNameBytes),
		MaxZipBytes:   cmp.Or(l.MaxZipBytes, DefaultLimits.MaxZipBytes),
		MaxZipRatio:   cmp.Or(l.MaxZipRatio, DefaultLimits.MaxZipRatio),
	}
}

// withPrefix widens the limits by what a prefix may add.
func (l Limits) withPrefix() Limits {
	l.MaxEntries += maxPrefixDepth
	l.MaxDepth += maxPrefixDepth
	l.MaxPathBytes += maxPrefixDepth * (l.MaxNameBytes + 1)
	return l
}

// TarBytes is the most that the tar inside the archive of a source within the limits has, with any prefix.
func (l Limits) TarBytes() int64 { return l.withDefaults().withPrefix().maxTarBytes() }

// ArchiveBytes is the most that the archive itself has. Whoever stores, fetches or reads archives goes by this one number, so
// that what one of them takes the next one takes as well. It is more than TarBytes: what cannot be compressed gets longer, by
// 5 bytes for each block of gzip, which has tens of kilobytes.
func (l Limits) ArchiveBytes() int64 {
	const head = 4 << 10
	tar := l.TarBytes()
	return tar + tar>>10 + head
}

// maxTarBytes bounds the tar stream of a source within the limits: an endless row of headers has no contents that the
// total could bound. Each entry has at most a header, a PAX header with its body, and the padding of its content.
func (l Limits) maxTarBytes() int64 {
	const (
		block = 512
		slack = 64 << 10 // the end mark, and the padding to whole records that other programs write
	)
	perEntry := int64(5*block + 2*l.MaxPathBytes)
	return l.MaxTotalBytes + int64(l.MaxEntries)*perEntry + slack
}
