// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"

	"github.com/naeel/sless/hack/internal/pki"
)

// Names of certificates that are not those of a part.
const (
	certAdmin         = "admin"
	certKubeletClient = "apiserver-kubelet-client"
	certEtcdClient    = "apiserver-etcd-client"
	certFrontProxy    = "front-proxy-client"
	certKubeletServer = "kubelet-server"
)

// certificates are all keys of the cluster.
type certificates struct {
	ca, etcdCA, frontProxyCA pki.Pair
	leaves                   map[string]pki.Pair
	// signing and verifying are the files of the key for service account tokens.
	signing, verifying string
}

// clusterLeaves lists the certificates that the cluster's authority signs. The names are those that the API server
// knows roles for.
func clusterLeaves() []pki.Leaf {
	return []pki.Leaf{
		{Name: partAPIServer, CommonName: "kube-apiserver", Hosts: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + domain,
			"localhost", "127.0.0.1", NodeIP, apiService,
		}},
		{Name: certKubeletServer, CommonName: "system:node:" + NodeName, Organizations: []string{"system:nodes"},
			Hosts: []string{NodeName, "localhost", NodeIP, "127.0.0.1"}},
		{Name: certKubeletClient, CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}},
		{Name: certAdmin, CommonName: "sless-admin", Organizations: []string{"system:masters"}},
		{Name: partManager, CommonName: "system:kube-controller-manager"},
		{Name: partScheduler, CommonName: "system:kube-scheduler"},
		{Name: partKubelet, CommonName: "system:node:" + NodeName, Organizations: []string{"system:nodes"}},
		{Name: partProxy, CommonName: "system:kube-proxy"},
	}
}

// makeCertificates reads or makes all keys. etcd and aggregated API servers have authorities of their own: whoever has
// a certificate of the cluster must not be able to use it there.
func (c *Cluster) makeCertificates() (*certificates, error) {
	dir, now := c.paths.pki(), c.Now()
	certs := &certificates{leaves: map[string]pki.Pair{}}
	for _, group := range []struct {
		name   string
		ca     *pki.Pair
		leaves []pki.Leaf
	}{
		{"ca", &certs.ca, clusterLeaves()},
		{"etcd-ca", &certs.etcdCA, []pki.Leaf{
			{Name: partEtcd, CommonName: "etcd", Hosts: []string{"localhost", "127.0.0.1"}},
			{Name: certEtcdClient, CommonName: "kube-apiserver-etcd-client"},
		}},
		{"front-proxy-ca", &certs.frontProxyCA, []pki.Leaf{
			{Name: certFrontProxy, CommonName: "front-proxy-client"},
		}},
	} {
		var err error
		if *group.ca, err = pki.NewCA(dir, group.name, now); err != nil {
			return nil, err
		}
		for _, leaf := range group.leaves {
			if certs.leaves[leaf.Name], err = pki.Issue(dir, *group.ca, leaf, now); err != nil {
				return nil, err
			}
		}
	}
	var err error
	certs.signing, certs.verifying, err = pki.SigningKey(dir, "service-account")
	return certs, err
}

// writeKubeconfigs writes one for each part that talks to the API server.
func (c *Cluster) writeKubeconfigs(certs *certificates) error {
	for _, name := range []string{partManager, partScheduler, partKubelet, partProxy, certAdmin} {
		if err := writeKubeconfig(c.paths.kubeconfig(name), certs, name); err != nil {
			return fmt.Errorf("kubeconfig of %s: %w", name, err)
		}
	}
	return nil
}

// writeKubeconfig writes a file that holds all it needs and can be copied elsewhere on this machine.
func writeKubeconfig(path string, certs *certificates, name string) error {
	const context = "sless"
	leaf := certs.leaves[name]
	data, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{context: {
			Server: "https://127.0.0.1:" + apiPort, CertificateAuthorityData: certs.ca.CertPEM,
		}},
		AuthInfos: map[string]*api.AuthInfo{name: {
			ClientCertificateData: leaf.CertPEM, ClientKeyData: leaf.KeyPEM,
		}},
		Contexts:       map[string]*api.Context{context: {Cluster: context, AuthInfo: name}},
		CurrentContext: context,
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return pki.WriteFile(path, data, 0o600)
}
