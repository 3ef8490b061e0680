// SPDX-License-Identifier: Apache-2.0

package toolcache

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const toolchain = "go1.26.8\nlinux\namd64\n"

func writeModule(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func baseFiles() map[string]string {
	return map[string]string{
		"go.mod":   "module example.com/tool\n\ngo 1.26\n\nrequire (\n\texample.com/dep v1.2.3\n)\n",
		"go.sum":   "example.com/dep v1.2.3 h1:x\n",
		"tools.go": "package tools\n",
	}
}

func TestKeyChangesWithWhatDecidesTheResult(t *testing.T) {
	t.Parallel()
	group := func(files map[string]string) Group {
		return Group{
			Name: "g", Dir: writeModule(t, files), VersionModule: "example.com/dep",
			Programs: []Program{{Name: "dep", Package: "example.com/dep"}}, Stamp: stamp("main.version"),
		}
	}
	want, err := group(baseFiles()).key(toolchain)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		change    func(files map[string]string)
		group     func(g *Group)
		toolchain string
		wantSame  bool
	}{
		"nothing, in another folder": {wantSame: true},
		"a file that is not built":   {change: func(f map[string]string) { f["notes.txt"] = "x" }, wantSame: true},
		"a test": {
			change: func(f map[string]string) { f["a_test.go"] = "package tools" }, wantSame: true,
		},
		"go.sum":           {change: func(f map[string]string) { f["go.sum"] += "more\n" }},
		"a source file":    {change: func(f map[string]string) { f["main.go"] = "package main" }},
		"the Go version":   {toolchain: "go1.27\nlinux\namd64\n"},
		"a program":        {group: func(g *Group) { g.Programs[0].Name = "other" }},
		"the linker flags": {group: func(g *Group) { g.Stamp = stamp("main.v") }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := baseFiles()
			if tc.change != nil {
				tc.change(files)
			}
			g := group(files)
			if tc.group != nil {
				tc.group(&g)
			}
			tools := toolchain
			if tc.toolchain != "" {
				tools = tc.toolchain
			}
			got, err := g.key(tools)
			if err != nil {
				t.Fatal(err)
			}
			if (got == want) != tc.wantSame {
				t.Errorf("key %s, before %s: want the same: %v", got, want, tc.wantSame)
			}
		})
	}
}

func TestModuleVersion(t *testing.T) {
	t.Parallel()
	dir := writeModule(t, map[string]string{
		"go.mod": "module m\n\nrequire a.org/one v1.0.0\n\nrequire (\n\ta.org/two v2.0.0 // indirect\n)\n\n" +
			"replace a.org/three => a.org/four v4.0.0\n",
	})
	for module, want := range map[string]string{"a.org/one": "v1.0.0", "a.org/two": "v2.0.0", "a.org/three": ""} {
		got, err := ModuleVersion(dir, module)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("version of %s: %q, %v; want %q", module, got, err, want)
		}
	}
}

func TestKubernetesStamp(t *testing.T) {
	t.Parallel()
	want := []string{
		"-X", "k8s.io/component-base/version.gitVersion=v1.37.2",
		"-X", "k8s.io/component-base/version.gitMajor=1",
		"-X", "k8s.io/component-base/version.gitMinor=37",
	}
	if diff := cmp.Diff(want, stampKubernetes("v1.37.2")); diff != "" {
		t.Errorf("stamp (-want +got):\n%s", diff)
	}
}

func TestDefaultOutput(t *testing.T) {
	t.Parallel()
	for pkg, want := range map[string]string{
		"go.etcd.io/etcd/server/v3":      "server",
		"k8s.io/kubernetes/cmd/kubelet":  "kubelet",
		"example.com/x/cmd/visible":      "visible",
		".":                              "coredns",
		"github.com/acme/v2fly":          "v2fly",
		"github.com/acme/tool/cmd/v":     "v",
		"github.com/acme/gateway/v1beta": "v1beta",
	} {
		if got := defaultOutput(pkg, "/x/coredns"); got != want {
			t.Errorf("output of %s: %s, want %s", pkg, got, want)
		}
	}
}

// TestNamedGroupsAreThere holds the table of groups against the folders of hack/tools.
func TestNamedGroupsAreThere(t *testing.T) {
	t.Parallel()
	checkout, err := Checkout(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		g, err := Named(checkout, name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Version(); err != nil {
			t.Errorf("version of group %s: %v", name, err)
		}
		if _, err := g.key(toolchain); err != nil {
			t.Errorf("key of group %s: %v", name, err)
		}
	}
	if _, err := Named(checkout, "nonsense"); err == nil {
		t.Error("an unknown group is accepted")
	}
}

func TestCheckoutNotFound(t *testing.T) {
	t.Parallel()
	if dir, err := Checkout(t.TempDir()); err == nil {
		t.Errorf("found a checkout at %s", dir)
	}
}
