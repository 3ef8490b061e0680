// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/hack/images/internal/layer"
	"github.com/naeel/sless/hack/images/internal/recipe"
)

func TestSourceLines(t *testing.T) {
	t.Parallel()
	const targets = `DEP-11 bookworm http://mirror.test/debian/ main
Packages bookworm http://mirror.test/debian/ main
Packages bookworm http://mirror.test/debian/ contrib
Packages bookworm-security http://mirror.test/security/ main
Packages bookworm http://mirror.test/debian/ main
Packages trixie http://mirror.test/debian/ main
broken line
`
	tests := map[string]struct {
		suite   string
		keyring bool
		want    []string
	}{
		"with the keyring": {suite: "bookworm", keyring: true, want: []string{
			"deb [signed-by=" + debianKeyring + "] http://mirror.test/debian/ bookworm main",
			"deb [signed-by=" + debianKeyring + "] http://mirror.test/security/ bookworm-security main",
		}},
		"without it":    {suite: "trixie", want: []string{"deb http://mirror.test/debian/ trixie main"}},
		"another suite": {suite: "sid"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, sourceLines(targets, tt.suite, tt.keyring)); diff != "" {
				t.Errorf("sources (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLanguageWithoutPackages covers all that needs no Debian: extra files go over the base, the runtime's patterns
// apply to them, and the base's patterns do not.
func TestLanguageWithoutPackages(t *testing.T) {
	t.Parallel()
	base := &recipe.Base{Remove: []string{"usr/local"}}
	baseTree := layer.Tree{"usr": layer.Dir(0o755), "etc/x": layer.File(0o644, []byte("base"))}
	local := &recipe.Local{
		Remove:      []string{"usr/local/doc"},
		Files:       []recipe.File{{Path: "etc/y", Content: "y", Mode: "0600"}},
		Directories: []recipe.Directory{{Path: "data", Mode: "1777"}},
		Links:       []recipe.Link{{Path: "usr/local/bin/l", To: "prog"}},
	}
	extra := layer.Tree{
		"usr/local/bin/prog": layer.File(0o755, []byte("p")), "usr/local/doc/big": layer.File(0o644, []byte("d")),
	}
	whole, err := Language(t.Context(), base, baseTree, local, extra)
	if err != nil {
		t.Fatal(err)
	}
	want := layer.Tree{
		"usr/local": layer.Dir(0o755), "usr/local/bin": layer.Dir(0o755), "data": layer.Dir(0o1777), "etc": layer.Dir(0o755),
		"usr/local/bin/prog": layer.File(0o755, []byte("p")), "usr/local/bin/l": layer.Symlink("prog"),
		"etc/y": layer.File(0o600, []byte("y")),
	}
	if diff := cmp.Diff(want, whole.Without(baseTree)); diff != "" {
		t.Errorf("what the runtime adds (-want +got):\n%s", diff)
	}
	if len(baseTree) != 2 {
		t.Error("the base tree was changed")
	}
}

func TestCertificateBundle(t *testing.T) {
	t.Parallel()
	bundle, err := certificateBundle(layer.Tree{
		"usr/share/ca-certificates/mozilla/b.crt": layer.File(0o644, []byte("B\n\n")),
		"usr/share/ca-certificates/mozilla/a.crt": layer.File(0o644, []byte("A")),
		"usr/share/ca-certificates/readme":        layer.File(0o644, []byte("R")),
	})
	if err != nil || string(bundle) != "A\nB\n" {
		t.Errorf("bundle %q, error %v", bundle, err)
	}
	if _, err := certificateBundle(layer.Tree{}); err == nil {
		t.Error("no error without certificates")
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	if got, want := quote("a 'b'"), `'a '\''b'\'''`; got != want {
		t.Errorf("quote = %s, want %s", got, want)
	}
}
