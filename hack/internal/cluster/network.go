// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/naeel/sless/hack/internal/pki"
)

const (
	// nftTable holds the rules of the cluster itself; nftProxy is what kube-proxy calls its tables.
	nftTable = "sless-cluster"
	nftProxy = "kube-proxy"
)

//go:embed templates/rules.nft.tmpl
var rulesTemplate string

// setUpNetwork makes the bridge and the rules. On a machine that has them it changes nothing.
func (c *Cluster) setUpNetwork(ctx context.Context, mtu int) error {
	loadModules(ctx)
	if err := c.setSysctls(); err != nil {
		return err
	}
	if err := ensureBridge(ctx, mtu); err != nil {
		return err
	}
	text, err := rules()
	if err != nil {
		return err
	}
	_, err = command(ctx, string(text), "nft", "-f", "-")
	return err
}

// rules gives the input of nft.
func rules() ([]byte, error) {
	return render(rulesTemplate, map[string]string{
		"Table": nftTable, "PodCIDR": podCIDR, "Bridge": bridge, "APIPort": apiPort,
	})
}

func ensureBridge(ctx context.Context, mtu int) error {
	if _, err := net.InterfaceByName(bridge); err != nil {
		// A fixed address: a bridge without one takes over that of its members, and pods would remember an old one.
		if _, err := command(ctx, "", "ip", "link", "add", bridge, "address", bridgeMAC, "type", "bridge"); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"link", "set", bridge, "mtu", fmt.Sprint(mtu), "up"},
		{"addr", "replace", NodeIP + "/24", "dev", bridge},
		// Service addresses are translated on the way out, for which the kernel wants a route first. This one also
		// works without any network, and makes the node's address the source, which pods can answer to.
		{"route", "replace", serviceCIDR, "dev", bridge, "src", NodeIP},
	} {
		if _, err := command(ctx, "", "ip", args...); err != nil {
			return err
		}
	}
	return writeSysctl("net/ipv4/conf/"+bridge+"/send_redirects", "0")
}

// defaultMTU gives the packet size of the way out of the machine: a pod that sends bigger ones loses them where a
// tunnel is on the way.
func defaultMTU(ctx context.Context) int {
	const usual = 1500
	out, err := command(ctx, "", "ip", "-json", "route", "show", "default")
	if err != nil {
		return usual
	}
	var routes []struct {
		Dev string `json:"dev"`
	}
	if json.Unmarshal([]byte(out), &routes) != nil || len(routes) == 0 {
		return usual
	}
	i, err := net.InterfaceByName(routes[0].Dev)
	if err != nil {
		return usual
	}
	return i.MTU
}

// loadModules asks for what the node needs of the kernel. Most kernels have it built in, and then there is no module of
// the name; what is really missing shows when it is used.
func loadModules(ctx context.Context) {
	for _, module := range []string{"overlay", "br_netfilter", "nf_conntrack"} {
		_, _ = command(ctx, "", "modprobe", module)
	}
}

// sysctls are the settings that Up changes, apart from those that the kubelet changes.
func sysctls() map[string]string {
	return map[string]string{
		"net/ipv4/ip_forward":                "1",
		"net/bridge/bridge-nf-call-iptables": "1",
		// What a pod sends to a Service without endpoints would leave by the bridge that it came from. The kernel would tell
		// the pod of a shorter way, and then keep back the refusal that follows, since it sends a host only so much: calls
		// would hang instead of failing. This counts together with the bridge's own setting.
		"net/ipv4/conf/all/send_redirects": "0",
	}
}

// savedSysctls lists what is put back by Down: ours and what the kubelet sets without asking.
func savedSysctls() []string {
	return []string{
		"net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables", "net/ipv4/conf/all/send_redirects",
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// setSysctls notes the machine's settings the first time and sets ours.
func (c *Cluster) setSysctls() error {
	if err := c.noteSysctls(); err != nil {
		return err
	}
	for name, value := range sysctls() {
		if err := writeSysctl(name, value); err != nil {
			return err
		}
	}
	return nil
}

// noteSysctls notes the settings that are not noted yet.
func (c *Cluster) noteSysctls() error {
	before := map[string]string{}
	data, err := os.ReadFile(c.paths.sysctls())
	if err == nil {
		err = json.Unmarshal(data, &before)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading %s: %w", c.paths.sysctls(), err)
	}
	for _, name := range savedSysctls() {
		if _, noted := before[name]; noted {
			continue
		}
		if value, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			before[name] = strings.TrimSpace(string(value))
		}
	}
	if data, err = json.MarshalIndent(before, "", "  "); err != nil {
		return err
	}
	return pki.WriteFile(c.paths.sysctls(), data, 0o600)
}

func writeSysctl(name, value string) error {
	if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o600); err != nil {
		return fmt.Errorf("setting %s: %w", strings.ReplaceAll(name, "/", "."), err)
	}
	return nil
}

// restoreSysctls puts back what setSysctls noted.
func (c *Cluster) restoreSysctls() error {
	data, err := os.ReadFile(c.paths.sysctls())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	before := map[string]string{}
	if err := json.Unmarshal(data, &before); err != nil {
		return fmt.Errorf("reading %s: %w", c.paths.sysctls(), err)
	}
	var errs []error
	for name, value := range before {
		errs = append(errs, os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o600))
	}
	return errors.Join(errs...)
}

// removeNetwork takes away interfaces and rules, whichever are there.
func removeNetwork(ctx context.Context) error {
	var errs []error
	if _, err := lookProgram("nft"); err == nil {
		errs = append(errs, removeTables(ctx))
	}
	if _, err := net.InterfaceByName(bridge); err != nil {
		return errors.Join(errs...)
	}
	for _, name := range bridgePorts() {
		// The other end may go away in the same moment, with the network namespace of its pod.
		_, _ = command(ctx, "", "ip", "link", "delete", name)
	}
	_, err := command(ctx, "", "ip", "link", "delete", bridge)
	return errors.Join(append(errs, err)...)
}

// bridgePorts lists the pods' interfaces.
func bridgePorts() []string {
	entries, err := os.ReadDir(filepath.Join("/sys/class/net", bridge, "brif"))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func removeTables(ctx context.Context) error {
	out, err := command(ctx, "", "nft", "list", "tables")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) == 3 && (fields[2] == nftTable || fields[2] == nftProxy) {
			_, err := command(ctx, "", "nft", "delete", "table", fields[1], fields[2])
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// render fills a template of this package. A name that the template uses and the values lack is an error.
func render(text string, values any) ([]byte, error) {
	t, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := t.Execute(&buf, values); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
