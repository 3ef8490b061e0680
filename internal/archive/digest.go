// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
)

const digestPrefix = "sha256:"

// DigestError says that content is not what its digest promises.
type DigestError struct {
	// Want and Got are digests as "sha256:" and 64 hex digits. Got is empty when there is more content than announced.
	Want, Got string
}

func (e *DigestError) Error() string {
	if e.Got == "" {
		return "content is longer than announced, expected digest " + e.Want
	}
	return fmt.Sprintf("content has digest %s, expected %s", e.Got, e.Want)
}

// ParseDigest gives the digest in its one form, "sha256:" and 64 lower-case hex digits, for a digest with or without
// its prefix.
func ParseDigest(digest string) (string, error) {
	hexDigits := strings.TrimPrefix(digest, digestPrefix)
	sum, err := hex.DecodeString(hexDigits)
	if err != nil || len(sum) != sha256.Size || strings.ToLower(hexDigits) != hexDigits {
		return "", fmt.Errorf("%s is not a sha256 digest", quote(digest))
	}
	return digestPrefix + hexDigits, nil
}

// Verify gives a reader of exactly size bytes of rc that have the digest. It never hands out the last byte of content
// that has another digest or another size: it fails with a *DigestError instead. Closing it closes rc.
func Verify(rc io.ReadCloser, digest string, size int64) (io.ReadCloser, error) {
	want, err := ParseDigest(digest)
	if err != nil {
		return nil, err
	}
	if size < 0 {
		return nil, fmt.Errorf("size %d of %s is negative", size, want)
	}
	return &verifier{ReadCloser: rc, want: want, left: size, sum: sha256.New()}, nil
}

type verifier struct {
	io.ReadCloser

	want string
	left int64
	sum  hash.Hash
	err  error // sticks
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.err != nil || len(p) == 0 {
		return 0, v.err
	}
	n := 0
	if v.left == 0 {
		v.err = v.finish()
	} else {
		n, v.err = v.readSome(p)
	}
	if v.err != nil {
		return 0, v.err
	}
	return n, nil
}

func (v *verifier) readSome(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p[:min(int64(len(p)), v.left)])
	v.sum.Write(p[:n])
	v.left -= int64(n)
	switch {
	case v.left == 0:
		// Whatever err is, all bytes are there and the digest decides.
		return n, v.check()
	case errors.Is(err, io.EOF):
		return 0, cmp.Or(v.check(), io.ErrUnexpectedEOF)
	}
	return n, err
}

func (v *verifier) check() error {
	if got := digestOf(v.sum); got != v.want {
		return &DigestError{Want: v.want, Got: got}
	}
	return nil
}

// finish is called when all bytes were handed out: nothing may follow. Content without any byte is checked here.
func (v *verifier) finish() error {
	if err := v.check(); err != nil {
		return err
	}
	var one [1]byte
	switch n, err := io.ReadFull(v.ReadCloser, one[:]); {
	case n > 0:
		return &DigestError{Want: v.want}
	default:
		return err
	}
}

func digestOf(h hash.Hash) string {
	return digestPrefix + hex.EncodeToString(h.Sum(nil))
}
