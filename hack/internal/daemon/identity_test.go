// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tailOfStat = " 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 "

// fakeProc is a process table made of files.
func fakeProc(t *testing.T, boot string, stats map[int]string) Proc {
	t.Helper()
	root := t.TempDir()
	write := func(path, content string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("sys/kernel/random/boot_id", boot+"\n")
	for pid, stat := range stats {
		write(strconv.Itoa(pid)+"/stat", stat)
	}
	return Proc{Root: root}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		line      string
		wantStart uint64
		wantState string
		wantErr   bool
	}{
		"plain":              {"7 (etcd) S" + tailOfStat + "4711 99", 4711, "S", false},
		"brackets in a name": {"7 (a) Z (b) c) R" + tailOfStat + "12 99", 12, "R", false},
		"cut off":            {"7 (etcd) S 1 2", 0, "", true},
		"empty":              {"", 0, "", true},
		"no name":            {"7 S" + tailOfStat + "12", 0, "", true},
		"not a number":       {"7 (etcd) S" + tailOfStat + "soon 99", 0, "S", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start, state, err := parseStat(tc.line)
			if start != tc.wantStart || state != tc.wantState || (err != nil) != tc.wantErr {
				t.Errorf("got %d, %q, %v", start, state, err)
			}
		})
	}
}

func TestAlive(t *testing.T) {
	t.Parallel()
	proc := fakeProc(t, "boot-b", map[int]string{
		10: "10 (etcd) S" + tailOfStat + "500 9",
		11: "11 (etcd) Z" + tailOfStat + "500 9",
	})
	cases := map[string]struct {
		id   Identity
		want bool
	}{
		"the same process":             {Identity{10, 500, "boot-b"}, true},
		"its number was used again":    {Identity{10, 499, "boot-b"}, false},
		"from before a restart":        {Identity{10, 500, "boot-a"}, false},
		"ended and not yet taken in":   {Identity{11, 500, "boot-b"}, false},
		"no such process":              {Identity{12, 500, "boot-b"}, false},
		"an empty record":              {Identity{}, false},
		"the number of another record": {Identity{11, 400, "boot-b"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := proc.Alive(tc.id); got != tc.want {
				t.Errorf("alive: %v, want %v", got, tc.want)
			}
		})
	}
	pids, err := proc.PIDs()
	if diff := cmp.Diff([]int{10, 11}, pids); diff != "" || err != nil {
		t.Errorf("processes: %v (-want +got):\n%s", err, diff)
	}
}

func TestListening(t *testing.T) {
	t.Parallel()
	const rest = " 00000000:00000000 00:00000000 00000000     0        0 4242 1 0000000000000000 100 0 0 10 0"
	zeros := strings.Repeat("0", 32)
	cases := map[string]struct {
		line string
		want string
	}{
		"listens":        {"   0: 00000000:192B 00000000:0000 0A" + rest, "4242"},
		"IPv6":           {"   0: " + zeros + ":192B " + zeros + ":0000 0A" + rest, "4242"},
		"another port":   {"   0: 00000000:192C 00000000:0000 0A" + rest, ""},
		"is a client":    {"   0: 00000000:192B 00000000:0000 01" + rest, ""},
		"the title line": {"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when uid inode", ""},
		"empty":          {"", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inode, ok := listening(tc.line, 6443)
			if ok != (tc.want != "") || ok && inode != tc.want {
				t.Errorf("got %q, %v; want %q", inode, ok, tc.want)
			}
		})
	}
}
