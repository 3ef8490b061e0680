// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	helloDigest = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	emptyDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := map[string]struct {
		content    io.Reader
		digest     string
		size       int64
		wantGot    string // what a *DigestError names
		wantDigest bool
		wantErr    error
		wantMost   int // bytes that may be handed out
	}{
		"right":         {content: strings.NewReader("hello"), digest: helloDigest, size: 5, wantMost: 5},
		"bare digest":   {content: strings.NewReader("hello"), digest: helloDigest[7:], size: 5, wantMost: 5},
		"empty":         {content: strings.NewReader(""), digest: emptyDigest, wantMost: 0},
		"other content": {content: strings.NewReader("hallo"), digest: helloDigest, size: 5, wantDigest: true, wantMost: 4},
		"shorter":       {content: strings.NewReader("hell"), digest: helloDigest, size: 5, wantDigest: true, wantMost: 4},
		"short, right": {
			content: strings.NewReader("hello"), digest: helloDigest, size: 6, wantErr: io.ErrUnexpectedEOF, wantMost: 5,
		},
		"longer":       {content: strings.NewReader("hello!"), digest: helloDigest, size: 5, wantDigest: true, wantMost: 5},
		"not empty":    {content: strings.NewReader("x"), digest: emptyDigest, wantDigest: true},
		"not so empty": {content: strings.NewReader(""), digest: helloDigest, wantDigest: true},
		"broken": {
			content: io.MultiReader(strings.NewReader("he"), iotest.ErrReader(broken)), digest: helloDigest, size: 5,
			wantErr: broken, wantMost: 2,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Verify(io.NopCloser(iotest.OneByteReader(tc.content)), tc.digest, tc.size)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(r)
			var digestErr *DigestError
			switch {
			case tc.wantDigest != errors.As(err, &digestErr):
				t.Errorf("got error %v", err)
			case tc.wantErr != nil && !errors.Is(err, tc.wantErr):
				t.Errorf("got error %v, want %v", err, tc.wantErr)
			case tc.wantErr == nil && !tc.wantDigest && err != nil:
				t.Errorf("got error %v", err)
			}
			if len(data) > tc.wantMost {
				t.Errorf("got %d bytes, want at most %d", len(data), tc.wantMost)
			}
			if _, again := r.Read(make([]byte, 1)); err != nil && !errors.Is(again, err) {
				t.Errorf("the next read gave %v, want %v", again, err)
			}
		})
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	upper := strings.ToUpper(helloDigest[7:])
	for _, digest := range []string{"", "sha256:", "md5:abc", helloDigest + "0", helloDigest[:20], upper} {
		if _, err := Verify(io.NopCloser(strings.NewReader("")), digest, 0); err == nil {
			t.Errorf("digest %q was accepted", digest)
		}
	}
	if _, err := Verify(io.NopCloser(strings.NewReader("")), helloDigest, -1); err == nil {
		t.Error("a negative size was accepted")
	}
}
