// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real single-node Kubernetes on a bare Debian machine, without a container engine, from
// programs that are built from Go modules and from Debian packages.
//
// Everything it does to the machine can be found again from the state folder and from fixed names, so that Down undoes
// it after any crash.
package cluster

import (
	"path/filepath"
)

const (
	// StateDir is the folder of the one cluster that a machine can have.
	StateDir = "/var/lib/sless-cluster"
	// lockPath lies outside of the state folder, which must not appear when a check fails.
	lockPath = "/run/sless-cluster.lock"

	// NodeName is the name of the node, NodeIP its address: the bridge of the pods, which no other network interface
	// of the machine takes part in.
	NodeName = "sless"
	NodeIP   = "10.244.0.1"

	bridge      = "sless0"
	bridgeMAC   = "0a:58:0a:f4:00:01"
	podCIDR     = "10.244.0.0/24"
	serviceCIDR = "10.96.0.0/16"
	apiService  = "10.96.0.1"
	dnsService  = "10.96.0.10"
	domain      = "cluster.local"
	cniNetwork  = "sless"

	// RegistryHost is the demo's registry as image references name it; the node reaches it at RegistryAddress.
	RegistryHost    = "registry.sless-demo.svc.cluster.local:5000"
	RegistryAddress = "10.96.0.50:5000"

	pauseImage = "sless.local/pause:3.10"
	// imageNamespace is the containerd namespace in which the kubelet looks for images.
	imageNamespace = "k8s.io"
)

// RegistryLogin is the docker config.json with which the checkout whose cluster it is logs in to the demo's registry.
func RegistryLogin(checkout string) string {
	return filepath.Join(checkout, "bin", "cluster", "registry", "config.json")
}

// Names of the parts, which are the names of their programs too.
const (
	partContainerd = "containerd"
	partEtcd       = "etcd"
	partAPIServer  = "kube-apiserver"
	partManager    = "kube-controller-manager"
	partScheduler  = "kube-scheduler"
	partKubelet    = "kubelet"
	partProxy      = "kube-proxy"
)

// parts lists all parts in the order in which they start.
func parts() []string {
	return []string{
		partContainerd, partEtcd, partAPIServer, partManager, partScheduler, partKubelet, partProxy,
	}
}

// port is a TCP address that a part listens on.
type port struct {
	part string
	addr string
}

const (
	etcdClientPort  = "12379"
	etcdPeerPort    = "12380"
	apiPort         = "6443"
	managerPort     = "10257"
	schedulerPort   = "10259"
	kubeletPort     = "10250"
	kubeletHealth   = "10248"
	proxyHealthPort = "10256"
	proxyMetrics    = "10249"
)

// ports lists what must be free before a part starts. etcd is not at its usual port, which a developer's own etcd may
// have.
func ports() []port {
	const local = "127.0.0.1:"
	return []port{
		{partEtcd, local + etcdClientPort},
		{partEtcd, local + etcdPeerPort},
		// All addresses: the pods use the bridge's, people 127.0.0.1. Other machines are kept out by a rule.
		{partAPIServer, "0.0.0.0:" + apiPort},
		{partManager, local + managerPort},
		{partScheduler, local + schedulerPort},
		{partKubelet, "0.0.0.0:" + kubeletPort},
		{partKubelet, local + kubeletHealth},
		{partProxy, local + proxyHealthPort},
		{partProxy, local + proxyMetrics},
	}
}

// paths are the files and folders of the cluster.
type paths struct {
	state string
}

func (p paths) join(parts ...string) string {
	return filepath.Join(append([]string{p.state}, parts...)...)
}

func (p paths) owner() string   { return p.join("owner") }
func (p paths) boot() string    { return p.join("boot") }
func (p paths) sysctls() string { return p.join("sysctls.json") }
func (p paths) pki() string     { return p.join("pki") }
func (p paths) conf() string    { return p.join("conf") }
func (p paths) logs() string    { return p.join("logs") }
func (p paths) pids() string    { return p.join("pids") }
func (p paths) data() string    { return p.join("data") }

// run holds what does not survive a restart of the machine, as /run does.
func (p paths) run() string             { return p.join("run") }
func (p paths) containerdRoot() string  { return p.join("data", "containerd") }
func (p paths) containerdState() string { return p.join("run", "containerd") }
func (p paths) runcState() string       { return p.join("run", "runc") }
func (p paths) socket() string          { return p.join("run", "containerd.sock") }

func (p paths) kubeconfig(name string) string { return p.join("conf", name+".kubeconfig") }
