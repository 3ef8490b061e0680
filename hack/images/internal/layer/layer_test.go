// SPDX-License-Identifier: Apache-2.0

package layer

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSameContentSameDigest(t *testing.T) {
	t.Parallel()
	make1 := func() (Tree, error) {
		return Tree{"a/b": File(0o644, []byte("text")), "a": Dir(0o755), "a-b": File(0o600, nil)}, nil
	}
	// The same, read from an archive with other times, another order and a leading "./".
	make2 := func() (Tree, error) {
		var buf bytes.Buffer
		tw := tar.NewWriter(&buf)
		for _, h := range []tar.Header{
			{Name: "./a-b", Mode: 0o600, Typeflag: tar.TypeReg, ModTime: time.Unix(5, 0), Uname: "me"},
			{Name: "./a/", Mode: 0o755, Typeflag: tar.TypeDir, ModTime: time.Unix(6, 0)},
			{Name: "./a/b", Mode: 0o100644, Typeflag: tar.TypeReg, Size: 4},
		} {
			if err := tw.WriteHeader(&h); err != nil {
				return nil, err
			}
			if h.Size > 0 {
				if _, err := io.WriteString(tw, "text"); err != nil {
					return nil, err
				}
			}
		}
		if err := tw.Close(); err != nil {
			return nil, err
		}
		return ReadTar(&buf)
	}
	one := mustGet(t, filepath.Join(t.TempDir(), "one"), make1)
	two := mustGet(t, filepath.Join(t.TempDir(), "two"), make2)
	if diff := cmp.Diff(one.meta, two.meta); diff != "" {
		t.Errorf("layers differ (-first +second):\n%s", diff)
	}
	tree, err := one.Tree()
	if err != nil {
		t.Fatal(err)
	}
	want, _ := make1()
	want["a-b"] = File(0o600, []byte{})
	if diff := cmp.Diff(want, tree); diff != "" {
		t.Errorf("tree read back (-want +got):\n%s", diff)
	}
}

func mustGet(t *testing.T, path string, tree func() (Tree, error)) *Cached {
	t.Helper()
	l, made, err := Get(path, tree)
	if err != nil || !made {
		t.Fatalf("Get made=%v, error %v", made, err)
	}
	return l
}

func TestGetUsesWhatIsWhole(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		damage   func(path string) error
		wantMade bool
	}{
		"whole":               {damage: func(string) error { return nil }},
		"layer cut off":       {damage: func(p string) error { return os.Truncate(p, 3) }, wantMade: true},
		"description cut off": {damage: func(p string) error { return os.Truncate(p+".json", 3) }, wantMade: true},
		"layer gone":          {damage: os.Remove, wantMade: true},
		"description gone":    {damage: func(p string) error { return os.Remove(p + ".json") }, wantMade: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "layer")
			tree := func() (Tree, error) { return Tree{"f": File(0o644, []byte("x"))}, nil }
			first := mustGet(t, path, tree)
			if err := tt.damage(path); err != nil {
				t.Fatal(err)
			}
			second, made, err := Get(path, tree)
			if err != nil {
				t.Fatal(err)
			}
			if made != tt.wantMade {
				t.Errorf("made = %v, want %v", made, tt.wantMade)
			}
			if diff := cmp.Diff(first.meta, second.meta); diff != "" {
				t.Errorf("layer changed (-first +second):\n%s", diff)
			}
		})
	}
}

func TestMergeUsr(t *testing.T) {
	t.Parallel()
	tree := Tree{
		"bin": Dir(0o755), "bin/sh": Symlink("dash"), "bin/dash": File(0o755, nil), "lib64": Dir(0o755),
		"usr": Dir(0o755), "usr/bin": Dir(0o755), "usr/bin/env": File(0o755, nil), "libexec": Dir(0o755),
	}
	tree.MergeUsr()
	want := Tree{
		"bin": Symlink("usr/bin"), "lib64": Symlink("usr/lib64"), "libexec": Dir(0o755),
		"usr": Dir(0o755), "usr/lib64": Dir(0o755), "usr/bin": Dir(0o755),
		"usr/bin/env": File(0o755, nil), "usr/bin/sh": Symlink("dash"), "usr/bin/dash": File(0o755, nil),
	}
	if diff := cmp.Diff(want, tree); diff != "" {
		t.Errorf("merged tree (-want +got):\n%s", diff)
	}
	tree.MergeUsr()
	if diff := cmp.Diff(want, tree); diff != "" {
		t.Errorf("merging again changed the tree (-want +got):\n%s", diff)
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	tree := Tree{
		"usr/share/doc": Dir(0o755), "usr/share/doc/a": Dir(0o755), "usr/share/doc/a/copyright": File(0o644, nil),
		"usr/share/doc/a/changelog": File(0o644, nil), "usr/share/document": File(0o644, nil),
		"usr/bin/perl5": File(0o755, nil),
	}
	tree.Filter([]string{"usr/share/doc", "usr/bin/perl*"}, []string{"usr/share/doc/*/copyright"})
	want := Tree{"usr/share/doc/a/copyright": File(0o644, nil), "usr/share/document": File(0o644, nil)}
	if diff := cmp.Diff(want, tree); diff != "" {
		t.Errorf("filtered tree (-want +got):\n%s", diff)
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	base := Tree{"same": File(0o644, []byte("1")), "mode": File(0o644, nil), "link": Symlink("a"), "gone": Dir(0o755)}
	whole := Tree{"same": File(0o644, []byte("1")), "mode": File(0o755, nil), "link": Symlink("b"), "new": Dir(0o755)}
	want := Tree{"mode": File(0o755, nil), "link": Symlink("b"), "new": Dir(0o755)}
	if diff := cmp.Diff(want, whole.Without(base)); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

func TestReadTarHardLinksAndDevices(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, h := range []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "dev/null", Typeflag: tar.TypeChar, Mode: 0o666},
		{Name: "one", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 7},
		{Name: "two", Typeflag: tar.TypeLink, Linkname: "./one"},
	} {
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ReadTar(&buf)
	if err != nil {
		t.Fatal(err)
	}
	file := Entry{Type: tar.TypeReg, Mode: 0o4755, UID: 7, Data: []byte{}}
	if diff := cmp.Diff(Tree{"one": file, "two": file}, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}
