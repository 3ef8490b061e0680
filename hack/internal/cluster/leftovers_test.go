// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMountsBelow(t *testing.T) {
	t.Parallel()
	table := filepath.Join(t.TempDir(), "mountinfo")
	write(t, table, `22 1 254:0 / / rw - ext4 /dev/vda rw
40 22 0:40 / /var/lib/sless-cluster/data/a rw - tmpfs tmpfs rw
41 22 0:41 / /var/lib/sless-cluster-other rw - tmpfs tmpfs rw
42 40 0:42 / /var/lib/sless-cluster/data/a/with\040space rw - tmpfs tmpfs rw
43 22 0:43 / /var/lib/sless-cluster rw - tmpfs tmpfs rw
short line
`)
	got, err := mountsBelow("/var/lib/sless-cluster", table)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/var/lib/sless-cluster", "/var/lib/sless-cluster/data/a/with space", "/var/lib/sless-cluster/data/a",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestUnescapeMount(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{`a\040b`: "a b", `a\134b`: `a\b`, `a\9b`: `a\9b`, `end\04`: `end\04`, "": ""} {
		if got := unescapeMount(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// TestCgroupsNamed holds our containers apart from those of another kubelet, with cgroups v1 and v2.
func TestCgroupsNamed(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{
		"kubepods/besteffort/pod1/ours", "memory/kubepods/pod1/ours", "memory/kubepods/pod2/theirs", "memory/other/ours",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		filepath.Join(root, "kubepods/besteffort/pod1/ours"), filepath.Join(root, "memory/kubepods/pod1/ours"),
	}
	if diff := cmp.Diff(want, cgroupsNamed(root, map[string]bool{"ours": true})); diff != "" {
		t.Errorf("cgroups (-want +got):\n%s", diff)
	}
}

func TestContainersAndShimSockets(t *testing.T) {
	t.Parallel()
	c := &Cluster{paths: paths{state: t.TempDir()}}
	task := filepath.Join(c.paths.containerdState(), "io.containerd.runtime.v2.task", imageNamespace)
	write(t, filepath.Join(task, "aaa", "address"), "unix:///run/containerd/s/1234\n")
	write(t, filepath.Join(task, "bbb", "address"), "unix:///elsewhere/5678")
	write(t, filepath.Join(c.paths.runcState(), imageNamespace, "ccc", "state.json"), "{}")
	write(t, filepath.Join(c.paths.containerdRoot(), "io.containerd.grpc.v1.cri/sandboxes/ddd/hosts"), "")
	want := map[string]bool{"aaa": true, "bbb": true, "ccc": true, "ddd": true}
	if diff := cmp.Diff(want, c.containerIDs()); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	// A path outside of containerd's folder is not believed.
	if diff := cmp.Diff([]string{"/run/containerd/s/1234"}, c.shimSockets()); diff != "" {
		t.Errorf("sockets (-want +got):\n%s", diff)
	}
}

func TestRemoveStateRemovesTheOwnerToo(t *testing.T) {
	t.Parallel()
	c := &Cluster{Checkout: "/src/a", paths: paths{state: filepath.Join(t.TempDir(), "state")}}
	if err := c.claim(); err != nil {
		t.Fatal(err)
	}
	write(t, c.paths.join("data", "etcd", "db"), "x")
	if owner, err := c.readOwner(); owner != "/src/a" || err != nil {
		t.Errorf("owner is %q, %v", owner, err)
	}
	for range 2 {
		if err := c.removeState(); err != nil {
			t.Fatal(err)
		}
	}
	if owner, err := c.readOwner(); owner != "" || err != nil {
		t.Errorf("owner after the end is %q, %v", owner, err)
	}
	if _, err := os.Stat(c.paths.state); !os.IsNotExist(err) {
		t.Error("the state folder is still there")
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	quiet := func(string, ...any) {}
	unlock, err := lock(t.Context(), path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lock(ctx, path, func(string, ...any) { cancel() }); err == nil {
		t.Fatal("got a lock that is held")
	}
	// Who waits gets it when it is given back, although the file is another one then.
	got := make(chan error, 1)
	go func() {
		second, err := lock(t.Context(), path, quiet)
		if err == nil {
			second()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("the lock file is still there")
	}
}
