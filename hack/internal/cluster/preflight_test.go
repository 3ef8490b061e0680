// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/netip"
	"strings"
	"testing"
)

// good is a machine on which nothing keeps the cluster from coming up.
func good() facts {
	return facts{goos: "linux", root: true, packager: true, checkout: "/src/a"}
}

func TestCheckUp(t *testing.T) {
	t.Parallel()
	api := port{partAPIServer, "0.0.0.0:6443"}
	cases := map[string]struct {
		change func(f *facts)
		want   string
	}{
		"a bare machine":         {func(*facts) {}, ""},
		"packages to install":    {func(f *facts) { f.missing = []string{"runc"} }, ""},
		"our own cluster":        {func(f *facts) { f.owner = "/src/a" }, ""},
		"another system":         {func(f *facts) { f.goos, f.root = "darwin", false }, "needs Linux and this is darwin"},
		"no root":                {func(f *facts) { f.root = false }, "needs root"},
		"another checkout":       {func(f *facts) { f.owner = "/src/b" }, "/src/b: run `make cluster-down` there"},
		"left behind by another": {func(f *facts) { f.owner, f.ownerGone = "/src/b", true }, ""},
		"no apt-get": {
			func(f *facts) { f.missing, f.packager = []string{"runc", "nftables"}, false }, "needs runc, nftables, and",
		},
		"no apt-get and nothing to install": {func(f *facts) { f.packager = false }, ""},
		"a port of a known program": {
			func(f *facts) { f.taken = []takenPort{{api, "nginx (process 12)"}} },
			"needs port 6443 for its kube-apiserver, but nginx (process 12) has it",
		},
		"a port of an unknown program": {
			func(f *facts) { f.taken = []takenPort{{port: api}} }, "but another program has it",
		},
		"an address of ours": {
			func(f *facts) { f.conflict = "cni0 has 10.244.0.1" }, "10.96.0.0/16, but cni0 has 10.244.0.1",
		},
		"the owner counts before the ports": {
			func(f *facts) { f.owner, f.taken = "/src/b", []takenPort{{port: api}} }, "belongs to the checkout",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := good()
			tc.change(&f)
			err := f.checkUp()
			if tc.want == "" {
				if err != nil {
					t.Errorf("unexpected: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v does not hold %q", err, tc.want)
			}
			if strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("error is more than one sentence: %v", err)
			}
		})
	}
}

// TestCheckOwner says who may take a cluster down.
func TestCheckOwner(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		owner   string
		gone    bool
		allowed bool
	}{
		"no cluster":                     {"", false, true},
		"our own":                        {"/src/a", false, true},
		"our own, of which nothing runs": {"/src/a", true, true},
		"another checkout's":             {"/src/b", false, false},
		"of a checkout that is gone":     {"/src/b", true, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := good()
			f.owner, f.ownerGone = tc.owner, tc.gone
			if err := f.checkOwner(); (err == nil) != tc.allowed {
				t.Errorf("error is %v, want allowed: %v", err, tc.allowed)
			}
			if want := tc.gone && tc.owner != "/src/a"; f.leftBehind() != want {
				t.Errorf("leftBehind is %v, want %v", f.leftBehind(), want)
			}
		})
	}
}

func TestInRanges(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"10.244.0.1": true, "10.244.0.255": true, "10.244.1.1": false,
		"10.96.0.10": true, "10.97.0.1": false, "192.0.2.2": false, "fd00::1": false,
	} {
		if got := inRanges(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is in the ranges: %v, want %v", addr, got, want)
		}
	}
}

// TestEveryPartHasAPort makes sure that a part is not forgotten in the checks.
func TestEveryPartHasAPort(t *testing.T) {
	t.Parallel()
	has := map[string]bool{partContainerd: true} // has a socket in the state folder
	for _, p := range ports() {
		has[p.part] = true
	}
	for _, part := range parts() {
		if !has[part] {
			t.Errorf("no port is checked for %s", part)
		}
	}
}
