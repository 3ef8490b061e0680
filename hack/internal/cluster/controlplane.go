// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"path/filepath"

	"github.com/naeel/sless/hack/internal/daemon"
)

// tools are the folders of the programs that were built.
type tools struct {
	kubernetes, etcd, coredns string
}

// flag writes one command line flag.
func flag(name, value string) string { return "--" + name + "=" + value }

func (c *Cluster) etcdSpec(t tools, certs *certificates) daemon.Spec {
	own := certs.leaves[partEtcd]
	client, peer := "https://127.0.0.1:"+etcdClientPort, "https://127.0.0.1:"+etcdPeerPort
	return daemon.Spec{
		Name: partEtcd, Path: filepath.Join(t.etcd, partEtcd), Env: baseEnv(),
		Args: []string{
			flag("name", NodeName),
			flag("data-dir", filepath.Join(c.paths.data(), "etcd")),
			flag("listen-client-urls", client),
			flag("advertise-client-urls", client),
			flag("listen-peer-urls", peer),
			flag("initial-advertise-peer-urls", peer),
			flag("initial-cluster", NodeName+"="+peer),
			flag("client-cert-auth", "true"),
			flag("trusted-ca-file", certs.etcdCA.CertFile),
			flag("cert-file", own.CertFile),
			flag("key-file", own.KeyFile),
			flag("peer-client-cert-auth", "true"),
			flag("peer-trusted-ca-file", certs.etcdCA.CertFile),
			flag("peer-cert-file", own.CertFile),
			flag("peer-key-file", own.KeyFile),
			// The cluster is thrown away after a crash of the machine; waiting for the disk makes everything slower.
			flag("unsafe-no-fsync", "true"),
			flag("log-level", "warn"),
		},
		Inputs: []string{certs.etcdCA.CertFile, own.CertFile},
	}
}

func (c *Cluster) apiServerSpec(t tools, certs *certificates) daemon.Spec {
	own, etcd := certs.leaves[partAPIServer], certs.leaves[certEtcdClient]
	kubelet, proxy := certs.leaves[certKubeletClient], certs.leaves[certFrontProxy]
	return daemon.Spec{
		Name: partAPIServer, Path: filepath.Join(t.kubernetes, partAPIServer), Env: baseEnv(),
		Args: []string{
			flag("bind-address", "0.0.0.0"),
			flag("secure-port", apiPort),
			// The address that pods reach the API server at.
			flag("advertise-address", NodeIP),
			flag("service-cluster-ip-range", serviceCIDR),
			flag("tls-cert-file", own.CertFile),
			flag("tls-private-key-file", own.KeyFile),
			flag("client-ca-file", certs.ca.CertFile),
			flag("etcd-servers", "https://127.0.0.1:"+etcdClientPort),
			flag("etcd-cafile", certs.etcdCA.CertFile),
			flag("etcd-certfile", etcd.CertFile),
			flag("etcd-keyfile", etcd.KeyFile),
			flag("service-account-issuer", "https://kubernetes.default.svc."+domain),
			flag("service-account-key-file", certs.verifying),
			flag("service-account-signing-key-file", certs.signing),
			flag("authorization-mode", "Node,RBAC"),
			flag("enable-admission-plugins", "NodeRestriction"),
			flag("allow-privileged", "true"),
			flag("kubelet-certificate-authority", certs.ca.CertFile),
			flag("kubelet-client-certificate", kubelet.CertFile),
			flag("kubelet-client-key", kubelet.KeyFile),
			// The node's name is in no DNS.
			flag("kubelet-preferred-address-types", "InternalIP"),
			flag("requestheader-client-ca-file", certs.frontProxyCA.CertFile),
			flag("requestheader-allowed-names", "front-proxy-client"),
			flag("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
			flag("requestheader-group-headers", "X-Remote-Group"),
			flag("requestheader-username-headers", "X-Remote-User"),
			flag("proxy-client-cert-file", proxy.CertFile),
			flag("proxy-client-key-file", proxy.KeyFile),
			flag("enable-aggregator-routing", "true"),
			flag("profiling", "false"),
		},
		Inputs: []string{
			certs.ca.CertFile, certs.etcdCA.CertFile, certs.frontProxyCA.CertFile, certs.verifying,
			own.CertFile, etcd.CertFile, kubelet.CertFile, proxy.CertFile,
		},
	}
}

func (c *Cluster) managerSpec(t tools, certs *certificates) daemon.Spec {
	config, own := c.paths.kubeconfig(partManager), certs.leaves[partManager]
	return daemon.Spec{
		Name: partManager, Path: filepath.Join(t.kubernetes, partManager), Env: baseEnv(),
		Args: []string{
			flag("kubeconfig", config),
			flag("authentication-kubeconfig", config),
			flag("authorization-kubeconfig", config),
			flag("bind-address", "127.0.0.1"),
			flag("secure-port", managerPort),
			flag("tls-cert-file", own.CertFile),
			flag("tls-private-key-file", own.KeyFile),
			flag("client-ca-file", certs.ca.CertFile),
			flag("cluster-name", NodeName),
			flag("cluster-signing-cert-file", certs.ca.CertFile),
			flag("cluster-signing-key-file", certs.ca.KeyFile),
			flag("root-ca-file", certs.ca.CertFile),
			flag("service-account-private-key-file", certs.signing),
			flag("use-service-account-credentials", "true"),
			flag("leader-elect", "false"),
			// Else it makes a folder under /usr.
			flag("flex-volume-plugin-dir", c.paths.volumePlugins()),
			// There is one client of each kind here, so nobody has to be protected from the others.
			flag("kube-api-qps", "200"),
			flag("kube-api-burst", "400"),
			// How soon more load gives more pods. The default of 15 s is for clusters with many more autoscalers.
			flag("horizontal-pod-autoscaler-sync-period", "2s"),
			flag("profiling", "false"),
		},
		Inputs: []string{config, certs.ca.CertFile, certs.verifying},
	}
}

func (c *Cluster) schedulerSpec(t tools, certs *certificates) daemon.Spec {
	config, own := c.paths.kubeconfig(partScheduler), certs.leaves[partScheduler]
	return daemon.Spec{
		Name: partScheduler, Path: filepath.Join(t.kubernetes, partScheduler), Env: baseEnv(),
		Args: []string{
			flag("kubeconfig", config),
			flag("authentication-kubeconfig", config),
			flag("authorization-kubeconfig", config),
			flag("bind-address", "127.0.0.1"),
			flag("secure-port", schedulerPort),
			flag("tls-cert-file", own.CertFile),
			flag("tls-private-key-file", own.KeyFile),
			flag("client-ca-file", certs.ca.CertFile),
			flag("leader-elect", "false"),
			flag("kube-api-qps", "200"),
			flag("kube-api-burst", "400"),
			flag("profiling", "false"),
		},
		Inputs: []string{config, certs.ca.CertFile},
	}
}
