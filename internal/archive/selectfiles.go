// SPDX-License-Identifier: Apache-2.0

package archive

import "io"

// SelectFiles gives the contents of those files of the archive r whose names pick takes, and how many bytes they have
// together. The names are those of the source, without opt.Prefix. When they have more than maxTotal bytes together, the
// map is nil and the total tells how much there is: the contents are bounded, whatever the archive holds. A damaged
// archive, or one with more bytes than the limits allow, gives an *Error. As with ReadFiles, the archive is read to its
// end, so that a reader given by Verify has the last word about it, and the paths in it are not judged again.
func SelectFiles(r io.Reader, pick func(name string) bool, maxTotal int64, opt Options) (
	files map[string][]byte, total int64, err error,
) {
	maxBytes := opt.Limits.TarBytes()
	files = map[string][]byte{}
	err = eachFile(r, io.Discard, opt, pick, func(name string, size int64, content io.Reader) (err error) {
		if files == nil || size > maxTotal-total {
			files = nil
			total = min(total, maxBytes) + min(size, maxBytes) // A header may claim anything.
			return nil
		}
		total += size
		files[name], err = io.ReadAll(content)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return files, total, nil
}
