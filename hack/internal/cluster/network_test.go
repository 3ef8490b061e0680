// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoteSysctls: what was noted first is what the machine had, also when a later version changes more settings.
func TestNoteSysctls(t *testing.T) {
	t.Parallel()
	const forward, redirects = "net/ipv4/ip_forward", "net/ipv4/conf/all/send_redirects"
	machine, err := os.ReadFile(filepath.Join("/proc/sys", redirects))
	if err != nil {
		t.Skipf("no kernel settings here: %v", err)
	}
	c := &Cluster{paths: paths{state: t.TempDir()}}
	if err := os.WriteFile(c.paths.sysctls(), []byte(`{"`+forward+`": "noted before"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.noteSysctls(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.paths.sysctls())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got[forward] != "noted before" {
		t.Errorf("%s is noted as %q, which is not what it was at first", forward, got[forward])
	}
	if want := strings.TrimSpace(string(machine)); got[redirects] != want {
		t.Errorf("%s is noted as %q, want %q", redirects, got[redirects], want)
	}
	if err := os.WriteFile(c.paths.sysctls(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.noteSysctls(); err == nil {
		t.Error("notes that cannot be read are written over")
	}
}

// TestEverySettingIsPutBack: Down must know of each setting that Up changes.
func TestEverySettingIsPutBack(t *testing.T) {
	t.Parallel()
	saved := strings.Join(savedSysctls(), " ")
	for name := range sysctls() {
		if !strings.Contains(saved, name) {
			t.Errorf("%s is changed and not put back", name)
		}
	}
}
