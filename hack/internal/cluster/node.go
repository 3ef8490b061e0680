// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/naeel/sless/hack/internal/daemon"
	"github.com/naeel/sless/hack/internal/pki"
)

var (
	//go:embed templates/containerd.toml.tmpl
	containerdTemplate string
	//go:embed templates/cni.conflist.tmpl
	cniTemplate string
	//go:embed templates/hosts.toml.tmpl
	hostsTemplate string
	//go:embed templates/kubelet.yaml.tmpl
	kubeletTemplate string
	//go:embed templates/kube-proxy.yaml.tmpl
	proxyTemplate string
)

// configFile is a file that a part reads.
type configFile struct {
	path     string
	template string
	values   map[string]string
}

func (f configFile) write() error {
	data, err := render(f.template, f.values)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return err
	}
	return pki.WriteFile(f.path, data, 0o644)
}

func (p paths) containerdConfig() string { return p.join("conf", "containerd.toml") }
func (p paths) cniConfig() string        { return p.join("conf", "cni", "10-sless.conflist") }
func (p paths) registries() string       { return p.join("conf", "registries") }
func (p paths) kubeletConfig() string    { return p.join("conf", "kubelet.yaml") }
func (p paths) volumePlugins() string    { return p.join("data", "volume-plugins") }
func (p paths) proxyConfig() string      { return p.join("conf", "kube-proxy.yaml") }
func (p paths) resolvConf() string       { return p.join("conf", "resolv.conf") }

// containerdFiles are what containerd reads.
func (p paths) containerdFiles(cniBin string, mtu string) []configFile {
	return []configFile{
		{p.containerdConfig(), containerdTemplate, map[string]string{
			"Root": p.containerdRoot(), "State": p.containerdState(), "Socket": p.socket(),
			"PauseImage": pauseImage, "RuncRoot": p.runcState(), "CNIBin": cniBin,
			"CNIConf": filepath.Dir(p.cniConfig()), "Registries": p.registries(),
		}},
		{p.cniConfig(), cniTemplate, map[string]string{
			"Network": cniNetwork, "Bridge": bridge, "MTU": mtu, "PodCIDR": podCIDR, "NodeIP": NodeIP,
			"DataDir": p.join("data", "cni"),
		}},
		{filepath.Join(p.registries(), RegistryHost, "hosts.toml"), hostsTemplate, map[string]string{
			"Address": RegistryAddress,
		}},
	}
}

// kubeletFiles are what the kubelet and kube-proxy read.
func (p paths) kubeletFiles(certs *certificates) []configFile {
	server := certs.leaves[certKubeletServer]
	return []configFile{
		{p.kubeletConfig(), kubeletTemplate, map[string]string{
			"NodeIP": NodeIP, "Port": kubeletPort, "HealthPort": kubeletHealth, "CAFile": certs.ca.CertFile,
			"CertFile": server.CertFile, "KeyFile": server.KeyFile, "Domain": domain, "DNS": dnsService,
			"ResolvConf": p.resolvConf(), "Socket": p.socket(), "PodLogs": p.join("logs", "pods"),
			"VolumePlugins": p.volumePlugins(),
		}},
		{p.proxyConfig(), proxyTemplate, map[string]string{
			"NodeIP": NodeIP, "NodeName": NodeName, "PodCIDR": podCIDR, "Kubeconfig": p.kubeconfig(partProxy),
			"HealthPort": proxyHealthPort, "MetricsPort": proxyMetrics,
		}},
	}
}

func writeAll(files []configFile) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.write())
	}
	return errors.Join(errs...)
}

// containerdSpec runs Debian's program with folders and a socket of our own. It pulls images, so it gets to know the
// proxy and the certificates that the caller uses.
func (c *Cluster) containerdSpec() (daemon.Spec, error) {
	path, err := lookProgram(partContainerd)
	if err != nil {
		return daemon.Spec{}, err
	}
	// The program is run where the link points, since the process table shows it there.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return daemon.Spec{}, err
	}
	return daemon.Spec{
		Name: partContainerd, Path: path,
		Args:   []string{"--config", c.paths.containerdConfig()},
		Env:    append(baseEnv(), pullEnv(os.Environ())...),
		Inputs: []string{c.paths.containerdConfig()},
	}, nil
}

// pullEnv picks the variables that decide how images are pulled. The cluster's own addresses are never asked of a
// proxy.
func pullEnv(environ []string) []string {
	var env []string
	proxied := false
	noProxy := strings.Join([]string{"127.0.0.1", "localhost", podCIDR, serviceCIDR, "." + domain}, ",")
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY":
			proxied = proxied || value != ""
			env = append(env, kv)
		case "NO_PROXY":
			noProxy = value + "," + noProxy
		case "SSL_CERT_FILE", "SSL_CERT_DIR":
			env = append(env, kv)
		}
	}
	if proxied {
		env = append(env, "NO_PROXY="+noProxy)
	}
	return env
}

func (c *Cluster) kubeletSpec(t tools, certs *certificates) daemon.Spec {
	config := c.paths.kubeconfig(partKubelet)
	return daemon.Spec{
		Name: partKubelet, Path: filepath.Join(t.kubernetes, partKubelet), Env: baseEnv(),
		Args: []string{
			flag("config", c.paths.kubeletConfig()),
			flag("kubeconfig", config),
			flag("root-dir", filepath.Join(c.paths.data(), "kubelet")),
			flag("cert-dir", filepath.Join(c.paths.data(), "kubelet", "pki")),
			flag("hostname-override", NodeName),
			flag("node-ip", NodeIP),
		},
		Inputs: []string{
			c.paths.kubeletConfig(), config, certs.leaves[certKubeletServer].CertFile, c.paths.resolvConf(),
		},
	}
}

func (c *Cluster) proxySpec(t tools) daemon.Spec {
	config := c.paths.kubeconfig(partProxy)
	return daemon.Spec{
		Name: partProxy, Path: filepath.Join(t.kubernetes, partProxy), Env: baseEnv(),
		Args:   []string{flag("config", c.paths.proxyConfig())},
		Inputs: []string{c.paths.proxyConfig(), config},
	}
}
