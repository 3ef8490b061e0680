// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/netip"
	"os"
	"strings"

	"github.com/naeel/sless/hack/internal/pki"
)

// resolvers are the files that name the machine's DNS servers, the better one first: where systemd-resolved is in use,
// /etc/resolv.conf names only a server on the loopback address, which pods cannot reach.
func resolvers() []string {
	return []string{"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"}
}

// writeResolvConf writes the resolv.conf of CoreDNS and says whether there is any server in it.
func (c *Cluster) writeResolvConf() (servers bool, err error) {
	for _, path := range resolvers() {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		text := podResolvConf(string(data))
		if strings.Contains(text, "nameserver ") {
			return true, pki.WriteFile(c.paths.resolvConf(), []byte(text), 0o644)
		}
	}
	return false, pki.WriteFile(c.paths.resolvConf(), nil, 0o644)
}

// podResolvConf keeps the servers that a pod can reach. Search domains are left out: they are for people.
func podResolvConf(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		// Pods have IPv4 only.
		if addr, err := netip.ParseAddr(fields[1]); err == nil && addr.Is4() && !addr.IsLoopback() {
			b.WriteString("nameserver " + fields[1] + "\n")
		}
	}
	return b.String()
}
